#include "entry_codec.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace foreshock::archive {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// Fields of all entries with a place, for ever. Their own begin at 4.
void PutPlace(const Place& place, pbf_writer* w) {
  w->add_uint32(1, place.attempt);
  w->add_uint32(2, place.rank);
  w->add_uint32(3, place.process);
}

// One field after the other; fields of another wire type than ours are skipped, as unknown ones are.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}
  template <typename Each>
  Status Read(Each each) {
    try {
      while (reader_.next()) {
        used_ = false;
        each(*this);
        if (!used_) reader_.skip();
      }
      return OkStatus();
    } catch (const protozero::exception& e) {
      return Status(Code::kInvalidArgument, std::string("malformed: ") + e.what());
    }
  }
  void Number(uint32_t tag, uint32_t* to) {
    if (Varint(tag)) *to = reader_.get_uint32();
  }
  void Number(uint32_t tag, uint64_t* to) {
    if (Varint(tag)) *to = reader_.get_uint64();
  }
  void Number(uint32_t tag, int64_t* to) {
    if (Varint(tag)) *to = reader_.get_int64();
  }
  // Not get_bool, which looks at one byte even where the message ends at the tag.
  void Flag(uint32_t tag, bool* to) {
    if (Varint(tag)) *to = reader_.get_uint64() != 0;
  }
  void Text(uint32_t tag, std::string* to) {
    if (used_ || reader_.tag() != tag || reader_.wire_type() != pbf_wire_type::length_delimited) return;
    used_ = true;
    const auto view = reader_.get_view();
    to->assign(view.data(), view.size());
  }
  void PlaceIn(Place* to) {
    Number(1, &to->attempt);
    Number(2, &to->rank);
    Number(3, &to->process);
  }

 private:
  bool Varint(uint32_t tag) {
    if (used_ || reader_.tag() != tag || reader_.wire_type() != pbf_wire_type::varint) return false;
    used_ = true;
    return true;
  }
  pbf_reader reader_;
  bool used_ = false;
};

// `entry`: what it is without a field.
template <typename T, typename Each>
Result<Entry> DecodeAs(std::string_view payload, T entry, Each each) {
  FS_RETURN_IF_ERROR(Fields(payload).Read([&](Fields& f) { each(f, entry); }));
  return Entry(std::move(entry));
}
template <typename T, typename Each>
Result<Entry> DecodeAs(std::string_view payload, Each each) {
  return DecodeAs<T>(payload, T{}, each);
}

Result<Entry> DecodeRecord(RecordKind kind, std::string_view payload) {
  return DecodeAs<Record>(payload, [kind](Fields& f, Record& record) {
    record.kind = kind;
    f.PlaceIn(&record.place);
    f.Text(4, &record.payload);
    f.Number(5, &record.type);
    f.Number(6, &record.seq);
    f.Text(7, &record.reason);
  });
}

void PutEntry(const Begin& begin, pbf_writer* w) {
  w->add_uint32(1, kVersion);
  w->add_string(2, begin.run);
  w->add_int64(3, begin.first_unix_ns);
  w->add_int64(4, begin.made_unix_ns);
  w->add_string(5, begin.made_by);
}

Result<Entry> DecodeBegin(std::string_view payload) {
  uint32_t version = 0;
  FS_ASSIGN_OR_RETURN(Entry entry, DecodeAs<Begin>(payload, [&](Fields& f, Begin& begin) {
                        f.Number(1, &version);
                        f.Text(2, &begin.run);
                        f.Number(3, &begin.first_unix_ns);
                        f.Number(4, &begin.made_unix_ns);
                        f.Text(5, &begin.made_by);
                      }));
  if (version == kVersion) return entry;
  return Status(version > kVersion ? Code::kUnimplemented : Code::kInvalidArgument,
                "version: " + std::to_string(version) + ", this version reads " + std::to_string(kVersion));
}

}  // namespace

EntryType TypeOf(const Entry& entry) {
  return std::visit(Overloaded{[](const Begin&) { return EntryType::kBegin; },
                               [](const Attempt&) { return EntryType::kAttempt; },
                               [](const Process&) { return EntryType::kProcess; },
                               [](const Record& record) {
                                 switch (record.kind) {
                                   case RecordKind::kFrame:
                                     return EntryType::kFrame;
                                   case RecordKind::kEvent:
                                     return EntryType::kEvent;
                                   case RecordKind::kQuarantined:
                                     break;
                                 }
                                 return EntryType::kQuarantined;
                               },
                               [](const Unmerged&) { return EntryType::kUnmerged; },
                               [](const Note&) { return EntryType::kNote; },
                               [](const Counters&) { return EntryType::kCounters; }},
                    entry);
}

std::string Encode(const Entry& entry) {
  std::string out;
  pbf_writer w(out);
  std::visit(Overloaded{[&](const Begin& begin) { PutEntry(begin, &w); },
                        [&](const Attempt& attempt) {
                          w.add_uint32(1, attempt.number);
                          w.add_string(2, attempt.name);
                          w.add_uint32(3, attempt.source);
                          w.add_int64(4, attempt.first_unix_ns);
                        },
                        [&](const Process& process) {
                          PutPlace(process.place, &w);
                          w.add_bytes(4, process.hello);
                          w.add_int64(5, process.first_unix_ns);
                          w.add_bytes(6, process.counters);
                        },
                        [&](const Record& record) {
                          out.reserve(record.payload.size() + record.reason.size() + 64);
                          PutPlace(record.place, &w);
                          w.add_bytes(4, record.payload);
                          if (record.kind != RecordKind::kQuarantined) return;
                          w.add_uint32(5, record.type);
                          w.add_uint64(6, record.seq);
                          w.add_bytes(7, record.reason);
                        },
                        [&](const Unmerged& unmerged) {
                          w.add_uint32(1, unmerged.attempt);
                          w.add_int64(2, unmerged.step);
                        },
                        [&](const Note& note) {
                          w.add_string(1, note.kind);
                          w.add_bytes(2, note.key);
                          w.add_bytes(3, note.value);
                          w.add_bool(4, note.of_run);
                        },
                        [&](const Counters& counters) {
                          PutPlace(counters.place, &w);
                          w.add_bytes(4, counters.counters);
                        }},
             entry);
  return out;
}

Result<Entry> Decode(uint8_t type, std::string_view payload) {
  switch (static_cast<EntryType>(type)) {
    case EntryType::kBegin:
      return DecodeBegin(payload);
    case EntryType::kAttempt:
      return DecodeAs<Attempt>(payload, [](Fields& f, Attempt& attempt) {
        f.Number(1, &attempt.number);
        f.Text(2, &attempt.name);
        f.Number(3, &attempt.source);
        f.Number(4, &attempt.first_unix_ns);
      });
    case EntryType::kProcess:
      return DecodeAs<Process>(payload, [](Fields& f, Process& process) {
        f.PlaceIn(&process.place);
        f.Text(4, &process.hello);
        f.Number(5, &process.first_unix_ns);
        f.Text(6, &process.counters);
      });
    case EntryType::kFrame:
      return DecodeRecord(RecordKind::kFrame, payload);
    case EntryType::kEvent:
      return DecodeRecord(RecordKind::kEvent, payload);
    case EntryType::kQuarantined:
      return DecodeRecord(RecordKind::kQuarantined, payload);
    case EntryType::kUnmerged:
      return DecodeAs<Unmerged>(payload, [](Fields& f, Unmerged& unmerged) {
        f.Number(1, &unmerged.attempt);
        f.Number(2, &unmerged.step);
      });
    case EntryType::kNote:
      return DecodeAs<Note>(payload, Note{{}, {}, {}, false}, [](Fields& f, Note& note) {
        f.Text(1, &note.kind);
        f.Text(2, &note.key);
        f.Text(3, &note.value);
        f.Flag(4, &note.of_run);
      });
    case EntryType::kCounters:
      return DecodeAs<Counters>(payload, [](Fields& f, Counters& counters) {
        f.PlaceIn(&counters.place);
        f.Text(4, &counters.counters);
      });
    case EntryType::kEnd:
      break;
  }
  return Status(Code::kUnimplemented,
                "entry of type " + std::to_string(type) + ", from a later version of Foreshock");
}

std::string Encode(const End& end) {
  std::string out;
  pbf_writer w(out);
  const Counts& c = end.counts;
  uint32_t tag = 1;
  for (const uint64_t number : {end.entries, c.attempts, c.processes, c.frames, c.merged_frames, c.events,
                                c.quarantined, c.unmerged, c.notes, c.counters}) {
    w.add_uint64(tag++, number);
  }
  return out;
}

Result<End> DecodeEnd(std::string_view payload) {
  End end;
  Counts& c = end.counts;
  FS_RETURN_IF_ERROR(Fields(payload).Read([&](Fields& f) {
    uint32_t tag = 1;
    for (uint64_t* number : {&end.entries, &c.attempts, &c.processes, &c.frames, &c.merged_frames, &c.events,
                             &c.quarantined, &c.unmerged, &c.notes, &c.counters}) {
      f.Number(tag++, number);
    }
  }));
  return end;
}

void Count(const Entry& entry, Counts* counts) {
  std::visit(Overloaded{[](const Begin&) {}, [&](const Attempt&) { ++counts->attempts; },
                        [&](const Process&) { ++counts->processes; },
                        [&](const Record& record) {
                          if (record.kind == RecordKind::kEvent) ++counts->events;
                          if (record.kind == RecordKind::kQuarantined) ++counts->quarantined;
                          if (record.kind == RecordKind::kFrame)
                            ++(record.place.rank == kMergedRank ? counts->merged_frames : counts->frames);
                        },
                        [&](const Unmerged&) { ++counts->unmerged; }, [&](const Note&) { ++counts->notes; },
                        [&](const Counters&) { ++counts->counters; }},
             entry);
}

}  // namespace foreshock::archive
