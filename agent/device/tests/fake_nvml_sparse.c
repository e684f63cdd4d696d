// An old libnvidia-ml with one GPU that knows little: no ECC, throttle reasons by their older name, no events.
static int gpu;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "?"; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { *device = &gpu; return i == 0 ? 0 : 2; }
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* c) { (void)device; (void)sensor; *c = 50; return 0; }
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* n) {
  (void)device; (void)type; (void)counter; (void)n;
  return 3;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* mask) { (void)device; *mask = 4; return 0; }
