// Writes the first inputs of every target into FOLDER/TARGET/, made by the real encoders: fuzz_seeds FOLDER.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "foreshock/agent/spool.h"
#include "foreshock/base/power_cut_file_system.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"
#include "foreshock/wire/recording.h"
#include "spool_script.h"

namespace foreshock::fuzz {
namespace {

void Write(const std::filesystem::path& folder, const char* name, const std::string& bytes) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << bytes;
}

wire::Hello AHello() {
  wire::Hello hello;
  hello.run = "run";
  hello.attempt = "1";
  hello.world_size = 2;
  hello.incarnation = 7;
  hello.host = "node";
  hello.model.name = "gpt";
  hello.model.layers = {
      {.layer = 0, .name = "h.0", .query_heads = 4, .kv_heads = 2, .head_dim = 64, .scale = 0.125f}};
  hello.unmonitored = {{"h.1", "MLA"}};
  hello.allowed_actions = {"enable_qk_norm"};
  hello.labels = {{"team", "a"}};
  return hello;
}

wire::Frame AFrame() {
  wire::Frame frame;
  frame.seq = 1;
  frame.step = 10;
  frame.series = {
      {.signal = 1, .layer = 0, .heads = {0, 1, 2, 3}, .present = {1, 0, 1, 1}, .values = {1, 0, 3, 4}},
      {.signal = 20,
       .layer = 0,
       .heads = {0, 2},
       .values = {1, 2},
       .weights = {8, 9},
       .moments = {1, 2, 3, 4, 5, 6, 7, 8}},
      {.signal = 40, .values = {2.5f}, .flags = wire::kLowResolution}};
  return frame;
}

// Every record of a spool's files, as a script.
std::string ASpool(bool stopped_cleanly) {
  PowerCutFileSystem fs;
  agent::SpoolRecovery recovery;
  auto spool = agent::Spool::Open(fs, "spool", {.ack_persist_interval_ms = 0}, &recovery).value();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const agent::SourceKey key{"run", "1", rank, 7};
    (void)spool->OpenSource(key, "hello").ok();
    for (uint64_t seq = 1; seq <= 3; ++seq) {
      const agent::SpoolItem item{seq, 2, "payload"};
      (void)spool->Append(key, {&item, 1}).ok();
    }
    spool->Acknowledge(key, rank);
  }
  if (stopped_cleanly) spool.reset();
  std::string script;
  for (uint8_t file = 0; file < kSpoolFiles.size(); ++file) {
    auto reader =
        AppendLogReader::Open(fs, JoinPath("spool", kSpoolFiles[file].name), kSpoolFiles[file].kind);
    if (!reader.ok()) continue;
    LogRecord record;
    while ((*reader)->Next(&record) == AppendLogReader::Outcome::kRecord) {
      AppendToScript(file, record.type, record.payload, &script);
    }
  }
  return script;
}

void WriteAll(const std::filesystem::path& to) {
  Write(to / "hello", "seed", wire::Encode(AHello()));
  Write(to / "frame", "seed-frame", std::string(1, '\0') + wire::Encode(AFrame()));
  wire::Event event;
  event.seq = 2;
  event.kind = wire::EventKind::kAction;
  event.detail = "detail";
  event.logit_before = 9;
  Write(to / "frame", "seed-event", '\1' + wire::Encode(event));
  wire::Goodbye goodbye;
  goodbye.seq = 3;
  goodbye.status = wire::GoodbyeStatus::kFailed;
  Write(to / "frame", "seed-goodbye", '\2' + wire::Encode(goodbye));
  wire::Reply reply;
  reply.durable_seq = 3;
  reply.hello.emplace().attempt = "1";
  reply.actions = {{.id = "a", .kind = "stop", .layers = {1, 2}}};
  reply.sampling.emplace().row_stride = 8;
  reply.error.emplace().field = "step";
  Write(to / "frame", "seed-reply", '\3' + wire::Encode(reply));
  Write(to / "frame", "seed-action", '\4' + wire::Encode(reply.actions[0]));
  Write(to / "jsonl", "seed",
        wire::JsonlHeader(AHello()) + wire::JsonlLine(AHello(), AFrame()) + wire::JsonlLine(event) +
            wire::JsonlLine(goodbye));
  std::string link(1, '\x10');
  wire::AppendRecord(wire::RecordType::kHello, wire::Encode(AHello()), &link);
  wire::AppendRecord(wire::RecordType::kFrame, wire::Encode(AFrame()), &link);
  wire::AppendRecord(wire::RecordType::kGoodbye, wire::Encode(goodbye), &link);
  Write(to / "link", "seed", link);
  Write(to / "spool", "seed-killed", ASpool(false));
  Write(to / "spool", "seed-stopped", ASpool(true));
}

}  // namespace
}  // namespace foreshock::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_seeds FOLDER\n";
    return 2;
  }
  foreshock::fuzz::WriteAll(argv[1]);
  return 0;
}
