// A picture of a page, drawn by the Chromium that is installed.
#pragma once

#include <chrono>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::cli {

struct PictureOptions {
  int width_pixels = 1280;  // the height is the page's
  std::chrono::milliseconds timeout{60'000};
};

// $FORESHOCK_CHROMIUM, or the first of chromium, chromium-browser, google-chrome on $PATH.
// kFailedPrecondition when there is none; the message says what to do.
Result<std::string> FindBrowser();

// Draws the HTML text, scripts included, into a PNG file, which is whole or not written. kIo when a file
// cannot be written, kUnavailable when the browser fails or does not end in time. Blocks; one process at a
// time.
Status DrawPage(const std::string& browser, const std::string& html, const std::string& png_path,
                const PictureOptions& options);

}  // namespace foreshock::cli
