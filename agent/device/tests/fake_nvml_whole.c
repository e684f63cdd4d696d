// A libnvidia-ml with two GPUs that knows everything: the second one is hot, has memory errors and reports Xid 79 once.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int gpus[2];
static int reported;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code == 10 ? "Timeout" : "?"; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { *device = &gpus[i]; return 0; }
int nvmlDeviceGetName(void* device, char* name, unsigned n) { (void)device; strncpy(name, "GPU of tests", n); return 0; }
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned n) {
  snprintf(uuid, n, "GPU-%d", device == &gpus[1]);
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) { (void)device; *mw = 701250; return 0; }
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* c) {
  *c = device == &gpus[1] ? 91 : 45;
  return sensor == 0 ? 0 : 2;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) { (void)device; *mhz = type == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* mask) {
  *mask = device == &gpus[1] ? 0x48 : 0x1;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* n) {
  *n = device == &gpus[1] ? (type == 1 ? 3 : 12) : 0;
  return counter == 1 ? 0 : 2;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* both) { (void)device; both[0] = 87; both[1] = 10; return 0; }
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* m) { (void)device; m[0] = 100; m[1] = 40; m[2] = 60; return 0; }
int nvmlEventSetCreate(void** set) { *set = &reported; return 0; }
int nvmlEventSetFree(void* set) { (void)set; return 0; }
int nvmlDeviceRegisterEvents(void* device, unsigned long long mask, void* set) { (void)device; (void)set; return mask == 8 ? 0 : 2; }
struct event { void* device; unsigned long long type, data; unsigned a, b; };
int nvmlEventSetWait_v2(void* set, struct event* event, unsigned timeout_ms) {
  (void)set;
  if (reported++ > 0) {
    usleep(timeout_ms * 1000);
    return 10;
  }
  event->device = &gpus[1];
  event->type = 8;
  event->data = 79;
  return 0;
}
