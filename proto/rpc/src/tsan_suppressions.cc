// The system's gRPC is not built with ThreadSanitizer, which therefore does not see its locks and takes what
// gRPC's own inline code hands from one thread to another for races. Only reports whose innermost frame lies
// in that code are left out; races in ours are reported. Used in that build only.
#if defined(__SANITIZE_THREAD__)

extern "C" {

// CMakeLists.txt makes the linker ask for this one: the other is also defined by the sanitizer's library and
// would not bring this file in.
extern const int foreshock_tsan_suppressions;
const int foreshock_tsan_suppressions = 1;

__attribute__((visibility("default"))) const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race_top:grpc::\n"
         "race_top:/usr/include/grpcpp/\n"
         "race_top:std_function.h\n"
         "race_top:shared_ptr_base.h\n"
         "race_top:atomic_base.h\n"
         "race_top:std::swap<std::_Any_data>\n"
         "race_top:std::swap<bool (*)(std::_Any_data\n";
}
}

#endif
