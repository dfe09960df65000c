#pragma once

#include "config/json/json_record.hpp"

/// Include this where a list is that is ListedElsewhere to all other sources; end that source with
/// `template struct rehearse::ListedElsewhere<rehearse::Record>;`.
namespace rehearse::inline config {

template <class Record>
OrderedJson ListedElsewhere<Record>::write(const Record& record) {
  return RecordForm<Record>::write(record);
}
template <class Record>
Record ListedElsewhere<Record>::read(const JsonPlace& place) {
  return RecordForm<Record>::read(place);
}
template <class Record>
OrderedJson ListedElsewhere<Record>::schema() {
  return RecordForm<Record>::schema();
}

}  // namespace rehearse::inline config
