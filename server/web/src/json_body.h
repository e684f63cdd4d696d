// Bodies of posts. Private.
#pragma once

#include "foreshock/base/result.h"
#include "foreshock/server/http/routes.h"

namespace google::protobuf {
class Message;
}

namespace foreshock::web {

// The body, which must be application/json, into the message by the field names of the proto files. Unknown
// fields are errors. A severity may be written as answers have it: "critical".
Status ReadJsonBody(const http::Request& request, google::protobuf::Message* message);

}  // namespace foreshock::web
