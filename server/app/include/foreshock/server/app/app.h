// App: the whole server in one object, so that tests and other programs can embed it.
//
//   auto app = App::New(options);       // checks the options, touches nothing
//   Status status = (*app)->Start();    // opens the store, listens; on failure everything is undone
//   ...
//   (*app)->Stop();                     // or the destructor
#pragma once

#include <memory>
#include <string>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/app/options.h"

namespace foreshock::app {

class App {
 public:
  // kInvalidArgument for bad options, kFailedPrecondition for addresses beyond loopback without protection.
  // The clock is not owned.
  static Result<std::unique_ptr<App>> New(AppOptions options, const Clock& clock = SystemClock::Instance());
  virtual ~App() = default;  // stops

  // One thread at a time; may be called again after Stop or a failure.
  virtual Status Start() = 0;
  // Refuses new work, commits what was taken, closes the store. Nothing happens when it is not running.
  virtual void Stop() = 0;

  // Reads rules_file again. A file with an error is refused whole and the rules that run stay: the status
  // says where; counted and logged either way. kFailedPrecondition without a rules_file or when not running.
  // The thread of Start and Stop.
  virtual Status ReloadRules() = 0;

  // Reads tokens_file and the certificates again, which also happens by itself within seconds of a change.
  // What has an error stays as it was: the status says the first; counted and logged. The thread of Start and
  // Stop.
  virtual Status ReloadSecurity() = 0;

  // The ports that are listened on; 0 when not running.
  virtual int grpc_port() const = 0;
  virtual int http_port() const = 0;
  // Ok, or the first thing that is wrong; kFailedPrecondition when not running. Any thread
  // between Start and Stop.
  virtual Status health() const = 0;
};

}  // namespace foreshock::app
