// A shared library needs one source of its own; everything comes from sdk/capi.
#include "foreshock/foreshock.h"
