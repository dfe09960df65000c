# Puts the page's assets and the chart library together into one HTML page with places for the data,
# and that page into a C++ source:
#
#   cmake -DASSETS=FOLDER -DTEMPLATE=FILE -DLIBRARY=chart.min.js -DSCRIPTS=a.js,b.js -DFUNCTION=NAME
#         -DOUTPUT=FILE -P embed.cmake
#
# The page's security policy names the SHA-256 of each script and of the style, so that nothing else
# on it can run.

# base64_of(VARIABLE HEX): the bytes that hexadecimal digits name, in base64.
function(base64_of variable hex)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(LENGTH "${hex}" digits)
  math(EXPR last "${digits} - 1")
  set(text "")
  foreach(begin RANGE 0 ${last} 6)
    string(SUBSTRING "${hex}000000" ${begin} 6 three)  # bytes, four letters
    math(EXPR bits "0x${three}")
    foreach(shift 18 12 6 0)
      math(EXPR letter "(${bits} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${letter} 1 letter)
      string(APPEND text "${letter}")
    endforeach()
  endforeach()
  math(EXPR bytes_over "(${digits} / 2) % 3")
  math(EXPR padding "(3 - ${bytes_over}) % 3")
  string(LENGTH "${text}" length)
  math(EXPR kept "${length} - ${padding}")
  string(SUBSTRING "${text}" 0 ${kept} text)
  string(REPEAT "=" ${padding} padding)
  set(${variable} "${text}${padding}" PARENT_SCOPE)
endfunction()

# policy_source(VARIABLE TEXT): what a Content-Security-Policy calls an element with this text.
function(policy_source variable text)
  string(SHA256 hash "${text}")
  base64_of(base64 ${hash})
  set(${variable} "'sha256-${base64}'" PARENT_SCOPE)
endfunction()

file(READ "${LIBRARY}" LIBRARY_SCRIPT)
file(READ "${ASSETS}/style.css" STYLE)
file(READ "${ASSETS}/licences.txt" LICENCES)
file(READ "${ASSETS}/${TEMPLATE}" page)
set(SCRIPT "\"use strict\";\n(() => {\n")
string(REPLACE "," ";" names "${SCRIPTS}")
foreach(name IN LISTS names)
  file(READ "${ASSETS}/${name}" text)
  string(APPEND SCRIPT "${text}")
endforeach()
string(APPEND SCRIPT "})();\n")
string(REGEX REPLACE "\n//# sourceMappingURL=[^\n]*\n?" "\n" LIBRARY_SCRIPT "${LIBRARY_SCRIPT}")

policy_source(LIBRARY_HASH "${LIBRARY_SCRIPT}")
policy_source(SCRIPT_HASH "${SCRIPT}")
policy_source(STYLE_HASH "${STYLE}")
foreach(name LIBRARY_HASH SCRIPT_HASH STYLE_HASH LICENCES STYLE LIBRARY_SCRIPT SCRIPT)
  string(REPLACE "@${name}@" "${${name}}" page "${page}")
endforeach()

file(WRITE "${OUTPUT}.html" "${page}")
file(READ "${OUTPUT}.html" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Made by sim/html/embed.cmake.
#include \"html/page_template.hpp\"

namespace rehearse::inline html {
namespace {
const unsigned char kPage[] = {${bytes}};
}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kPage), sizeof kPage}; }

}  // namespace rehearse::inline html
")
