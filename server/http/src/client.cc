#include "foreshock/server/http/client.h"

#include <httplib.h>

namespace foreshock::http {
namespace {

struct Url {
  std::string origin;  // scheme://host[:port]
  std::string path;    // with query, at least "/"
};

Result<Url> ParseUrl(const std::string& url) {
  const size_t scheme = url.find("://");
  const std::string name = url.substr(0, scheme == std::string::npos ? 0 : scheme);
  const size_t host = scheme + 3;
  if ((name != "http" && name != "https") || host >= url.size() || url[host] == '/') {
    return Status(Code::kInvalidArgument, "url: \"" + url + "\", expected http(s)://host[:port][/path]");
  }
  const size_t path = url.find('/', host);
  if (path == std::string::npos) return Url{url, "/"};
  return Url{url.substr(0, path), url.substr(path)};
}

template <typename Send>
Result<ClientResponse> Call(const std::string& url, const ClientOptions& options, Send send) {
  FS_ASSIGN_OR_RETURN(const Url parsed, ParseUrl(url));
  httplib::Client client(parsed.origin, options.cert_file, options.key_file);
  if (!client.is_valid()) return Status(Code::kInvalidArgument, "url: \"" + url + "\" is not valid");
  if (!options.ca_file.empty()) client.set_ca_cert_path(options.ca_file.c_str());
  client.set_connection_timeout(options.connect_timeout);
  client.set_read_timeout(options.read_timeout);
  client.set_write_timeout(options.read_timeout);
  httplib::Headers headers(options.headers.begin(), options.headers.end());
  const httplib::Result result = send(client, parsed.path, headers);
  if (!result) {
    return Status(Code::kUnavailable,
                  "no answer from " + parsed.origin + ": " + httplib::to_string(result.error()));
  }
  return ClientResponse{result->status, result->body};
}

}  // namespace

Result<ClientResponse> Get(const std::string& url, const ClientOptions& options) {
  return Call(url, options,
              [](httplib::Client& client, const std::string& path, const httplib::Headers& headers) {
                return client.Get(path, headers);
              });
}

Result<ClientResponse> Post(const std::string& url, const std::string& body, const std::string& content_type,
                            const ClientOptions& options) {
  return Call(url, options,
              [&](httplib::Client& client, const std::string& path, const httplib::Headers& headers) {
                return client.Post(path, headers, body, content_type);
              });
}

Result<ClientResponse> Delete(const std::string& url, const ClientOptions& options) {
  return Call(url, options,
              [](httplib::Client& client, const std::string& path, const httplib::Headers& headers) {
                return client.Delete(path, headers);
              });
}

}  // namespace foreshock::http
