#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rehearse::inline config {

/// What may stand at a key: alternatives, in the order of the reference. Its text is what
/// scenarios/keys.md and `rehearse list keys` print: "integer >= 1 (samples) or map".
class KeyType {
 public:
  enum class Kind {
    text,
    word,  ///< this word alone
    flag,
    integer,
    number,
    time,
    size,
    data_rate,
    arithmetic_rate,
    choice,
    name,  ///< of a list that the program prints
    map,
    list,
    like,  ///< as another key
  };
  struct One {
    Kind kind = Kind::text;
    std::string words = {};               ///< a word; a list's command; the other key's path
    std::vector<std::string> names = {};  ///< of a choice
    std::optional<double> low = {}, high = {};
    bool above = false;               ///< `low` is left out
    std::string note = {};            ///< a unit, or what the text is
    std::string beside = {};          ///< a word beside a quantity: "fits"
    std::vector<KeyType> items = {};  ///< one: of a list whose items have a type
  };

  explicit KeyType(One one);
  KeyType(const KeyType&);
  KeyType(KeyType&&) noexcept;
  KeyType& operator=(const KeyType&);
  KeyType& operator=(KeyType&&) noexcept;
  ~KeyType();

  const std::vector<One>& alternatives() const { return alternatives_; }
  /// The same in such a unit, or with what else stands in parentheses; of the last alternative.
  KeyType in(const char* note) const;
  /// A number, which is at most that.
  KeyType to(double high) const;
  /// A quantity, or that word.
  KeyType or_word(const char* word) const;
  std::string text() const;
  /// As text() without what stands in parentheses, and that alone; all in the first where there are
  /// several alternatives.
  std::string name() const;
  std::string unit() const;

  friend KeyType operator|(KeyType one, const KeyType& other);

 private:
  std::vector<One> alternatives_;
};

/// The types by what they are called.
namespace type {

KeyType text();
KeyType text(const char* what);
KeyType word(const char* word);
KeyType flag();
KeyType integer();
KeyType integer(double low);
KeyType number();
KeyType above(double low);
KeyType at_least(double low);
/// From one to the other, both among them.
KeyType within(double low, double high);
KeyType time();
KeyType size();
KeyType data_rate();
KeyType arithmetic_rate();
KeyType choice(std::vector<std::string> names);
KeyType name();
/// One of what `rehearse list ...` prints.
KeyType name_of(const char* list);
KeyType map();
KeyType list();
KeyType list_of(KeyType item);
/// As the key at that path.
KeyType like(const char* path);

}  // namespace type

}  // namespace rehearse::inline config
