// Field numbers of proto/foreshock/v1/ingest.proto. The test wire_messages_test compares them with the
// generated code.
#pragma once

#include <protozero/types.hpp>

namespace foreshock::wire::field {

using Tag = protozero::pbf_tag_type;

// A field number with the wire type that its field has, for switches over tag_and_type(): the same number
// with another type is an unknown field, as in protobuf's own parsers.
constexpr uint32_t Varint(Tag tag) { return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint); }
constexpr uint32_t Fixed32(Tag tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed32);
}
constexpr uint32_t Fixed64(Tag tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed64);
}
constexpr uint32_t Bytes(Tag tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}

namespace hello {
inline constexpr Tag kWireVersion = 1, kRun = 2, kAttempt = 3, kAttemptSource = 4, kRank = 5, kWorldSize = 6,
                     kIncarnation = 7, kStarted = 8, kHost = 9, kPid = 10, kSdkVersion = 11, kFramework = 12,
                     kModel = 13, kUnmonitored = 14, kAllowedActions = 15, kSampleEverySteps = 16,
                     kLabels = 17, kLocalWorldSize = 18, kActionProtocol = 19;
}
namespace model {
inline constexpr Tag kName = 1, kModelDim = 2, kLayers = 3;
}
namespace layer {
inline constexpr Tag kLayer = 1, kName = 2, kQueryHeads = 3, kKvHeads = 4, kHeadDim = 5, kScale = 6,
                     kSoftcap = 7, kQkNorm = 8, kIsLowResolution = 9;
}
namespace unmonitored {
inline constexpr Tag kName = 1, kReason = 2;
}
// Shared by Frame, Event and Goodbye.
namespace head {
inline constexpr Tag kSeq = 1, kStep = 2, kTime = 3, kDroppedBefore = 4;
}
namespace frame {
inline constexpr Tag kSkipped = 5, kPart = 6, kParts = 7, kWindowFrom = 8, kSeries = 9;
}
namespace series {
inline constexpr Tag kSignal = 1, kLayer = 2, kFirstHead = 3, kHeadCount = 4, kHeads = 5, kPresence = 6,
                     kValues = 7, kWeights = 8, kMoments = 9, kValuesPerHead = 10, kDirectionHash = 11,
                     kFlags = 12, kStepOffsets = 13, kRotated = 14, kShard = 15, kShards = 16;
}
namespace event {
inline constexpr Tag kKind = 5, kDetail = 6, kLayers = 7, kActionId = 8, kAction = 9, kActionState = 10,
                     kLogitBefore = 11, kLogitAfter = 12;
}
namespace goodbye {
inline constexpr Tag kStatus = 5, kDetail = 6;
}
namespace reply {
inline constexpr Tag kDurableSeq = 1, kHello = 2, kActions = 3, kSampling = 4, kError = 5, kTime = 6,
                     kProposals = 7;
}
namespace hello_ack {
inline constexpr Tag kAttempt = 1, kAttemptSource = 2, kDurableSeq = 3, kMessageLimit = 4;
}
namespace action {
inline constexpr Tag kId = 1, kKind = 2, kAttempt = 3, kIssuer = 4, kEffectiveStep = 5, kExpiryStep = 6,
                     kLayers = 7, kValue = 8, kReason = 9, kCommitted = 10;
}
namespace sampling {
inline constexpr Tag kAttention = 1, kSpectra = 2, kProjections = 3, kRowStride = 4;
}
namespace error {
inline constexpr Tag kCode = 1, kField = 2, kValue = 3, kLimit = 4, kMessage = 5, kSeq = 6, kFinal = 7;
}

}  // namespace foreshock::wire::field
