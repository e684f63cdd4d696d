#pragma once

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::wire {

class Matcher;

void PutSeries(protozero::pbf_writer& writer, const Series& series);
// The same, compared.
void MatchSeries(Matcher& m, const Series& series);

// Reads one Series; kInvalidArgument names the field whose size does not fit. Takes the memory that it needs
// out of *room (kMaxFrameFloats for a frame): missing heads and per-head values unfold to far more than their
// bytes.
Status ReadSeries(protozero::pbf_reader reader, size_t* room, Series* into);

}  // namespace foreshock::wire
