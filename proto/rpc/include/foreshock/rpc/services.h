// The generated service interfaces. Heavy: include it in few .cc files, never in a header.
#pragma once

#include "foreshock/v1/control.grpc.pb.h"
#include "foreshock/v1/ingest.grpc.pb.h"
#include "foreshock/v1/query.grpc.pb.h"
