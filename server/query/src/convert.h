// What store and wire hold, as messages.
#pragma once

#include "foreshock/server/store/types.h"
#include "foreshock/v1/query.pb.h"
#include "foreshock/wire/types.h"

namespace foreshock::query {

void ToProto(const wire::Series& series, v1::Series* out);
void ToProto(const wire::Frame& frame, v1::Frame* out);
void ToProto(const wire::Event& event, v1::Event* out);
void ToProto(const store::AttemptInfo& attempt, v1::Attempt* out);
// Model, labels and unmonitored parts of the newest attempt.
void AddHello(const wire::Hello& hello, v1::Run* out);
v1::RunState ToProto(store::RunState state);

}  // namespace foreshock::query
