// A recording on its way to a server, over Ingest.Stream. Private.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/wire/recording.h"

namespace foreshock::cli {

// As Client::SendRecording.
Status SendRecordingTo(const std::shared_ptr<rpc::Channel>& channel,
                       std::chrono::milliseconds connect_timeout,
                       const std::vector<wire::RecordingItem>& items);

}  // namespace foreshock::cli
