#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "registry.h"

namespace foreshock::store {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

// Field numbers, for ever.
enum Run : uint32_t { kRunName = 1, kRunFirst = 2 };
enum Attempt : uint32_t { kAttemptName = 1, kAttemptSource = 2, kAttemptFirst = 3 };
enum Source : uint32_t { kHello = 1, kSourceFirst = 2 };
enum Counters : uint32_t {
  kDurableSeq = 1,
  kFrames = 2,
  kEvents = 3,
  kDuplicates = 4,
  kDropped = 5,
  kGaps = 6,
  kQuarantined = 7,
  kFirstStepField = 8,
  kLastStepField = 9,
  kSkew = 10,
  kLast = 11,
  kGoodbye = 12,
  kLastSent = 13,
};

template <typename Read>
Status Guarded(const char* what, std::string_view bytes, Read read) {
  try {
    pbf_reader r(bytes.data(), bytes.size());
    while (r.next()) FS_RETURN_IF_ERROR(read(r));
    return OkStatus();
  } catch (const protozero::exception& e) {
    return Status(Code::kDataLoss, std::string(what) + ": " + e.what());
  }
}

}  // namespace

std::string EncodeRun(const RunEntry& run) {
  std::string out;
  pbf_writer w(out);
  w.add_string(kRunName, run.name);
  w.add_int64(kRunFirst, run.first_unix_ns);
  return out;
}

Status DecodeRun(std::string_view bytes, RunEntry* run) {
  return Guarded("run record", bytes, [&](pbf_reader& r) {
    switch (r.tag()) {
      case kRunName:
        run->name = r.get_string();
        break;
      case kRunFirst:
        run->first_unix_ns = r.get_int64();
        break;
      default:
        r.skip();
    }
    return OkStatus();
  });
}

std::string EncodeAttempt(const AttemptEntry& attempt) {
  std::string out;
  pbf_writer w(out);
  w.add_string(kAttemptName, attempt.name);
  w.add_uint32(kAttemptSource, static_cast<uint32_t>(attempt.source));
  w.add_int64(kAttemptFirst, attempt.first_unix_ns);
  return out;
}

Status DecodeAttempt(std::string_view bytes, AttemptEntry* attempt) {
  return Guarded("attempt record", bytes, [&](pbf_reader& r) {
    switch (r.tag()) {
      case kAttemptName:
        attempt->name = r.get_string();
        break;
      case kAttemptSource:
        attempt->source = static_cast<wire::AttemptSource>(r.get_uint32());
        break;
      case kAttemptFirst:
        attempt->first_unix_ns = r.get_int64();
        break;
      default:
        r.skip();
    }
    return OkStatus();
  });
}

std::string EncodeSource(const SourceInfo& source) {
  std::string out;
  pbf_writer w(out);
  w.add_bytes(kHello, wire::Encode(*source.hello));
  w.add_int64(kSourceFirst, source.first_unix_ns);
  return out;
}

Status DecodeSource(std::string_view bytes, SourceInfo* source) {
  return Guarded("source record", bytes, [&](pbf_reader& r) -> Status {
    switch (r.tag()) {
      case kHello: {
        FS_ASSIGN_OR_RETURN(wire::Hello hello, wire::DecodeHello(std::string(r.get_string())));
        source->hello = std::make_shared<const wire::Hello>(std::move(hello));
        break;
      }
      case kSourceFirst:
        source->first_unix_ns = r.get_int64();
        break;
      default:
        r.skip();
    }
    return OkStatus();
  });
}

std::string EncodeCounters(const SourceInfo& s) {
  std::string out;
  pbf_writer w(out);
  w.add_uint64(kDurableSeq, s.durable_seq);
  w.add_uint64(kFrames, s.frames);
  w.add_uint64(kEvents, s.events);
  w.add_uint64(kDuplicates, s.duplicates);
  w.add_uint64(kDropped, s.dropped);
  w.add_uint64(kGaps, s.gaps);
  w.add_uint64(kQuarantined, s.quarantined);
  if (s.first_step) w.add_int64(kFirstStepField, *s.first_step);
  if (s.last_step) w.add_int64(kLastStepField, *s.last_step);
  w.add_sint64(kSkew, s.clock_skew_ns);
  w.add_int64(kLast, s.last_unix_ns);
  if (s.goodbye) w.add_bytes(kGoodbye, wire::Encode(*s.goodbye));
  w.add_int64(kLastSent, s.last_sent_unix_ns);
  return out;
}

Status DecodeCounters(std::string_view bytes, SourceInfo* s) {
  return Guarded("source counters", bytes, [&](pbf_reader& r) -> Status {
    switch (r.tag()) {
      case kDurableSeq:
        s->durable_seq = r.get_uint64();
        break;
      case kFrames:
        s->frames = r.get_uint64();
        break;
      case kEvents:
        s->events = r.get_uint64();
        break;
      case kDuplicates:
        s->duplicates = r.get_uint64();
        break;
      case kDropped:
        s->dropped = r.get_uint64();
        break;
      case kGaps:
        s->gaps = r.get_uint64();
        break;
      case kQuarantined:
        s->quarantined = r.get_uint64();
        break;
      case kFirstStepField:
        s->first_step = r.get_int64();
        break;
      case kLastStepField:
        s->last_step = r.get_int64();
        break;
      case kSkew:
        s->clock_skew_ns = r.get_sint64();
        break;
      case kLast:
        s->last_unix_ns = r.get_int64();
        break;
      case kLastSent:
        s->last_sent_unix_ns = r.get_int64();
        break;
      case kGoodbye: {
        FS_ASSIGN_OR_RETURN(wire::Goodbye goodbye, wire::DecodeGoodbye(std::string(r.get_string())));
        s->goodbye = std::move(goodbye);
        break;
      }
      default:
        r.skip();
    }
    return OkStatus();
  });
}

}  // namespace foreshock::store
