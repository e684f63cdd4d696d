// The stub that toolkits bring along: it has no driver behind it.
int nvmlInit_v2(void) { return 9; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 0; return 9; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { (void)i; *device = 0; return 9; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "?"; }
