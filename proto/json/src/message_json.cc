#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cctype>

#include "foreshock/json/json.h"
#include "foreshock/v1/ingest.pb.h"
#include "foreshock/v1/query.pb.h"
#include "series_json.h"

namespace foreshock::json {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kTimeSuffix = "_unix_ns";

bool IsTime(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_FIXED64 && field.name().size() > kTimeSuffix.size() &&
         field.name().ends_with(kTimeSuffix);
}

std::string KeyOf(const FieldDescriptor& field) {
  if (!IsTime(field)) return field.name();
  const std::string stem = field.name().substr(0, field.name().size() - kTimeSuffix.size());
  return stem == "time" ? stem : stem + "_at";
}

// RUN_STATE_RUNNING of RunState: "running".
std::string EnumName(const EnumValueDescriptor& value) {
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (std::isupper(static_cast<unsigned char>(c)) && !prefix.empty()) prefix.push_back('_');
    prefix.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  }
  prefix.push_back('_');
  std::string name = value.name();
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return name;
}

void WriteTime(uint64_t unix_ns, Writer* out) {
  if (unix_ns == 0) {
    out->Null();
  } else {
    out->String(Rfc3339(static_cast<int64_t>(unix_ns)));
  }
}

// Element `index` of a repeated field, or the field itself when index < 0.
class FieldValue {
 public:
  FieldValue(const Message& message, const FieldDescriptor& field, int index)
      : m_(message), f_(field), r_(*message.GetReflection()), i_(index) {}

  void Write(Writer* out) const {
    switch (f_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return (void)out->Int(i_ < 0 ? r_.GetInt32(m_, &f_) : r_.GetRepeatedInt32(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_INT64:
        return (void)out->Int(i_ < 0 ? r_.GetInt64(m_, &f_) : r_.GetRepeatedInt64(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_UINT32:
        return (void)out->Uint(i_ < 0 ? r_.GetUInt32(m_, &f_) : r_.GetRepeatedUInt32(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_UINT64:
        return WriteUint64(i_ < 0 ? r_.GetUInt64(m_, &f_) : r_.GetRepeatedUInt64(m_, &f_, i_), out);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return (void)out->Double(i_ < 0 ? r_.GetDouble(m_, &f_) : r_.GetRepeatedDouble(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return (void)out->Float(i_ < 0 ? r_.GetFloat(m_, &f_) : r_.GetRepeatedFloat(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_BOOL:
        return (void)out->Bool(i_ < 0 ? r_.GetBool(m_, &f_) : r_.GetRepeatedBool(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_ENUM:
        return WriteEnum(out);
      case FieldDescriptor::CPPTYPE_STRING:
        return (void)out->String(i_ < 0 ? r_.GetString(m_, &f_) : r_.GetRepeatedString(m_, &f_, i_));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return json::Write(i_ < 0 ? r_.GetMessage(m_, &f_) : r_.GetRepeatedMessage(m_, &f_, i_), out);
    }
  }

 private:
  void WriteUint64(uint64_t value, Writer* out) const {
    if (IsTime(f_)) return WriteTime(value, out);
    if (f_.type() == FieldDescriptor::TYPE_FIXED64) return (void)out->String(std::to_string(value));
    out->Uint(value);
  }

  // A number that a newer sender knows and this build does not stays a number.
  void WriteEnum(Writer* out) const {
    const int number = i_ < 0 ? r_.GetEnumValue(m_, &f_) : r_.GetRepeatedEnumValue(m_, &f_, i_);
    const EnumValueDescriptor* value = f_.enum_type()->FindValueByNumber(number);
    if (value == nullptr) return (void)out->Int(number);
    out->String(EnumName(*value));
  }

  const Message& m_;
  const FieldDescriptor& f_;
  const Reflection& r_;
  const int i_;
};

void WriteMap(const Message& message, const FieldDescriptor& field, Writer* out) {
  const Reflection& r = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::vector<const Message*> entries;
  for (int i = 0; i < r.FieldSize(message, &field); ++i)
    entries.push_back(&r.GetRepeatedMessage(message, &field, i));
  const auto key_of = [&](const Message& m) { return m.GetReflection()->GetString(m, &key); };
  std::sort(entries.begin(), entries.end(),
            [&](const Message* a, const Message* b) { return key_of(*a) < key_of(*b); });
  out->BeginObject();
  for (const Message* entry : entries) {
    out->Key(key_of(*entry));
    FieldValue(*entry, value, -1).Write(out);
  }
  out->EndObject();
}

// Fields whose "there is none" is a value in the message.
bool IsNone(const Message& message, const FieldDescriptor& field) {
  if (field.full_name() == "foreshock.v1.Evidence.baseline") {
    return !static_cast<const v1::Evidence&>(message).has_baseline();
  }
  if (message.GetDescriptor() != v1::Alert::descriptor()) return false;
  const auto& alert = static_cast<const v1::Alert&>(message);
  if (field.name() == "resolved_step") return alert.state() != v1::ALERT_STATE_RESOLVED;
  if (field.name() == "fired_step") return alert.state() == v1::ALERT_STATE_PENDING;
  if (field.name() == "last_checkpoint_step") return alert.last_checkpoint_step() < 0;
  return false;
}

bool IsHidden(const FieldDescriptor& field) {
  return field.full_name() == "foreshock.v1.Evidence.has_baseline" ||
         field.type() == FieldDescriptor::TYPE_BYTES;
}

void WriteField(const Message& message, const FieldDescriptor& field, Writer* out) {
  const Reflection& r = *message.GetReflection();
  if (field.is_map()) return WriteMap(message, field, out);
  if (field.is_repeated()) {
    out->BeginArray();
    for (int i = 0; i < r.FieldSize(message, &field); ++i) FieldValue(message, field, i).Write(out);
    out->EndArray();
    return;
  }
  if ((field.has_presence() && !r.HasField(message, &field)) || IsNone(message, field))
    return (void)out->Null();
  FieldValue(message, field, -1).Write(out);
}

}  // namespace

void Write(const Message& message, Writer* out) {
  const auto* type = message.GetDescriptor();
  if (type == v1::Series::descriptor()) return WriteSeries(static_cast<const v1::Series&>(message), out);
  if (type == v1::Frame::descriptor()) return WriteFrame(static_cast<const v1::Frame&>(message), out);
  out->BeginObject();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor& field = *type->field(i);
    // Of a oneof, only the member that is set.
    const bool other_member =
        field.real_containing_oneof() != nullptr && !message.GetReflection()->HasField(message, &field);
    if (IsHidden(field) || other_member) continue;
    out->Key(KeyOf(field));
    WriteField(message, field, out);
  }
  out->EndObject();
}

std::string ToJson(const Message& message) {
  Writer out;
  Write(message, &out);
  return out.Take();
}

}  // namespace foreshock::json
