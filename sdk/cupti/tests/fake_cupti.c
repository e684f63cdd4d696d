// A CUPTI that must not be called: it ends the process.
#include <stdlib.h>

#define NEVER(name) \
  int name(void) { abort(); }

NEVER(cuptiSubscribe)
NEVER(cuptiUnsubscribe)
NEVER(cuptiActivityRegisterCallbacks)
NEVER(cuptiActivityEnable)
NEVER(cuptiActivityDisable)
NEVER(cuptiActivityFlushAll)
NEVER(cuptiActivityGetNextRecord)
NEVER(cuptiActivityGetNumDroppedRecords)
NEVER(cuptiGetResultString)
