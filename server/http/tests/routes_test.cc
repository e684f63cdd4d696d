#include "foreshock/server/http/routes.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "foreshock/base/percent.h"

namespace foreshock::http {
namespace {

Routes Sample() {
  Routes routes;
  routes.Get("/", [](const Request&) { return Response{200, "text/plain", "root"}; });
  routes.Get("/runs/{run}/step/{step}", [](const Request& r) {
    return Response{200, "text/plain",
                    r.Path("run") + "|" + r.Path("step") + "|" + r.Query("q").value_or("-")};
  });
  routes.Post("/runs/{run}/actions", [](const Request& r) { return Response{201, "text/plain", r.body}; });
  routes.Get("/throws", [](const Request&) -> Response { throw std::runtime_error("broken"); });
  return routes;
}

Response Call(const std::string& method, const std::string& target, const std::string& body = {}) {
  Request request;
  request.method = method;
  request.target = target;
  request.body = body;
  return Sample().Dispatch(request);
}

TEST(Routes, NamesPartsAndQuery) {
  EXPECT_EQ(Call("GET", "/").body, "root");
  EXPECT_EQ(Call("GET", "/runs/a/step/3").body, "a|3|-");
  EXPECT_EQ(Call("HEAD", "/runs/a/step/3?q=x").body, "a|3|x");
  EXPECT_EQ(Call("GET", "/runs/team%2Fgpt%202/step/3?x=1&q=a%26b+c&q=second").body, "team/gpt 2|3|a&b c");
  EXPECT_EQ(Call("POST", "/runs/a/actions", "{}").body, "{}");
}

TEST(Routes, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Call("GET", "/nothing").code, 404);
  EXPECT_EQ(Call("GET", "/runs//step/3").code, 404);
  EXPECT_EQ(Call("GET", "/runs/a/step/3/more").code, 404);
  EXPECT_EQ(Call("GET", "/runs/a/actions").code, 405);
  EXPECT_EQ(Call("DELETE", "/").code, 405);
  for (const char* bad : {"/runs/%/step/3", "/runs/%2/step/3", "/runs/%zz/step/3", "/runs/a/step/3?q=%"}) {
    const Response response = Call("GET", bad);
    EXPECT_EQ(response.code, 400) << bad;
    EXPECT_NE(response.body.find("\"field\":\"url\""), std::string::npos) << response.body;
  }
}

TEST(Routes, AHandlerThatThrowsIsA500) {
  const Response response = Call("GET", "/throws");
  EXPECT_EQ(response.code, 500);
  EXPECT_NE(response.body.find("broken"), std::string::npos);
}

TEST(ErrorResponse, NamesTheFieldOfTheMessage) {
  const Response response = ErrorResponse(Status(Code::kInvalidArgument, "step: -3, at least 0"));
  EXPECT_EQ(response.code, 400);
  EXPECT_EQ(response.body,
            "{\"error\":{\"code\":\"invalid argument\",\"message\":\"step: -3, at least "
            "0\",\"field\":\"step\"}}\n");
  EXPECT_NE(ErrorResponse(Status(Code::kNotFound, "there is: none")).body.find("\"field\":null"),
            std::string::npos);
}

TEST(PercentEncode, ReadsBack) {
  const std::string text = "team/gpt 2 100%+\xc3\xa9?&=#";
  EXPECT_EQ(*PercentDecode(PercentEncode(text), true), text);
  EXPECT_EQ(*PercentDecode(PercentEncode(text), false), text);
}

}  // namespace
}  // namespace foreshock::http
