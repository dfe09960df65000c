# What the program prints of itself, for `cmake --install`; `rehearse` is the program, `folders` are
# those of man's pages and of shared data.
list(GET folders 0 pages)
list(GET folders 1 data)

function(print file)
  message(STATUS "Installing: ${file}")
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${rehearse} ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

execute_process(COMMAND ${rehearse} man OUTPUT_VARIABLE page COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "rehearse\\\\-[a-z]+ \\(1\\)" commands "${page}")
print(${pages}/rehearse.1 man)
foreach(command IN LISTS commands)
  string(REGEX REPLACE "rehearse\\\\-([a-z]+) .*" "\\1" command "${command}")
  print(${pages}/rehearse-${command}.1 man ${command})
endforeach()
print(${data}/bash-completion/completions/rehearse completion bash)
print(${data}/zsh/site-functions/_rehearse completion zsh)
print(${data}/fish/vendor_completions.d/rehearse.fish completion fish)
