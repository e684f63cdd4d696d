// Errors as values: Status says whether something worked, Result<T> carries a value or the Status.
//
// Both are [[nodiscard]]. To ignore one on purpose, call IgnoreError(), which is easy to search for.
// Messages for users name the field, the value and the limit, e.g. "run: 310 characters, at most 200".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace foreshock {

enum class Code {
  kOk,
  kInvalidArgument,     // the caller's input is wrong and stays wrong
  kNotFound,
  kAlreadyExists,
  kFailedPrecondition,  // right input, wrong moment
  kOutOfRange,
  kPermissionDenied,
  kResourceExhausted,   // a limit or the disk: may pass
  kUnavailable,         // the other side is away: may pass
  kDataLoss,            // bytes on disk or on the wire are not what was written
  kUnimplemented,
  kIo,                  // the operating system said no; the message has its words
  kInternal,
};

// The name of a code as users see it, e.g. "invalid argument".
constexpr std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kNotFound: return "not found";
    case Code::kAlreadyExists: return "already exists";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kOutOfRange: return "out of range";
    case Code::kPermissionDenied: return "permission denied";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kUnavailable: return "unavailable";
    case Code::kDataLoss: return "data loss";
    case Code::kUnimplemented: return "unimplemented";
    case Code::kIo: return "I/O error";
    case Code::kInternal: return "internal error";
  }
  return "unknown";
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // "invalid argument: run: empty", or "ok".
  std::string ToString() const {
    if (ok()) return "ok";
    return std::string(CodeName(code_)) + ": " + message_;
  }

  // The same status with "context: " before its message.
  Status Annotate(std::string_view context) const {
    if (ok()) return *this;
    return Status(code_, std::string(context) + ": " + message_);
  }

  void IgnoreError() const {}

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }

// A value, or the reason why there is none. Reading the value of a failed Result is undefined: ask ok() first.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                 // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {          // NOLINT: implicit on purpose
    if (status_.ok()) status_ = Status(Code::kInternal, "Result built from an ok Status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  // By value: `for (x : Make().value())` is safe; `map[r->id] = *std::move(r)` is not, it empties r first.
  T value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  void IgnoreError() const {}

 private:
  std::optional<T> value_;
  Status status_;
};

// Returns the status of an expression from the enclosing function when it failed.
#define FS_RETURN_IF_ERROR(expression)              \
  do {                                              \
    ::foreshock::Status fs_status_ = (expression);  \
    if (!fs_status_.ok()) return fs_status_;        \
  } while (false)

#define FS_CONCAT_INNER_(a, b) a##b
#define FS_CONCAT_(a, b) FS_CONCAT_INNER_(a, b)

// FS_ASSIGN_OR_RETURN(auto x, Make()): declares x, or returns the failure.
#define FS_ASSIGN_OR_RETURN(declaration, expression) \
  FS_ASSIGN_OR_RETURN_INNER_(FS_CONCAT_(fs_result_, __LINE__), declaration, expression)
#define FS_ASSIGN_OR_RETURN_INNER_(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return result.status();                         \
  declaration = std::move(result).value()

}  // namespace foreshock
