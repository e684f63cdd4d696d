#pragma once

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::wire {

void PutSeries(protozero::pbf_writer& writer, const Series& series);

// Reads one Series; kInvalidArgument names the field whose size does not fit.
Result<Series> ReadSeries(protozero::pbf_reader reader);

}  // namespace foreshock::wire
