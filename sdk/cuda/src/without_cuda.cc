// The runtime's header in a build without CUDA.
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/cuda/device_buffer.h"
#include "foreshock/sdk/cuda/read_back.h"
#include "foreshock/sdk/cuda/stream_scratch.h"
#include "foreshock/sdk/cuda/weight_probe.h"

namespace foreshock::cuda {
namespace {

constexpr char kReason[] = "this build of Foreshock has no CUDA";

Status NotBuilt() { return Status(Code::kUnimplemented, kReason); }

}  // namespace

const Support& DriverSupport() {
  static const Support support{false, kReason};
  return support;
}

DeviceGuard::DeviceGuard(int device) noexcept : ok_(device == kHost) {}
DeviceGuard::~DeviceGuard() = default;

bool IsCapturing(Stream) noexcept { return false; }
uint64_t CaptureOf(Stream) noexcept { return 0; }
Status FillAsync(void*, int, size_t, Stream) noexcept { return NotBuilt(); }
Status CopyToHostAsync(void*, const void*, size_t, Stream) noexcept { return NotBuilt(); }
Status CudaStatus(int code, const char*) { return code == 0 ? OkStatus() : NotBuilt(); }

Result<DeviceBuffer> DeviceBuffer::Make(int, size_t) { return NotBuilt(); }
DeviceBuffer::~DeviceBuffer() = default;
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept { return *this; }

Result<PinnedBuffer> PinnedBuffer::Make(int, size_t) { return NotBuilt(); }
PinnedBuffer::~PinnedBuffer() = default;
PinnedBuffer::PinnedBuffer(PinnedBuffer&&) noexcept {}
PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&&) noexcept { return *this; }

StreamScratch::~StreamScratch() = default;
StreamScratch::StreamScratch(StreamScratch&&) noexcept {}
StreamScratch& StreamScratch::operator=(StreamScratch&&) noexcept { return *this; }
Status StreamScratch::Reserve(size_t, Stream) noexcept { return NotBuilt(); }

Result<DeviceEvent> DeviceEvent::Make(int, bool) { return NotBuilt(); }
DeviceEvent::~DeviceEvent() = default;
DeviceEvent::DeviceEvent(DeviceEvent&&) noexcept {}
DeviceEvent& DeviceEvent::operator=(DeviceEvent&&) noexcept { return *this; }
Status DeviceEvent::Record(Stream) const noexcept { return NotBuilt(); }
Status DeviceEvent::Await(Stream) const noexcept { return NotBuilt(); }
Status DeviceEvent::Reached() const noexcept { return NotBuilt(); }
double DeviceEvent::NanosSince(const DeviceEvent&) const noexcept { return 0; }

Status ReadBack(void*, const void*, size_t, int, Stream) noexcept { return NotBuilt(); }

Result<std::unique_ptr<WeightProbe>> WeightProbe::Make(int, std::vector<DeviceHead>, std::vector<QkPair>) {
  return NotBuilt();
}

}  // namespace foreshock::cuda
