"""The server's own web page in a headless Chromium: real runs, clicks, and what is on the page compared with the API.

Needs Playwright (scripts/deploy-test installs it) and a chromium; skipped without them.
"""

import os
import re
import shutil
import sys
import urllib.error
import urllib.request

import harness
import tools_python
from harness import until

TOKEN = "a-control-token-for-this-test"
CHROMIUM = os.environ.get("FORESHOCK_CHROMIUM") or shutil.which("chromium")
PATIENCE_MS = harness.DEADLINE_S * 1000


class WebPage(harness.Case):
    def setUp(self):
        super().setUp()
        from playwright.sync_api import sync_playwright
        token = self.folder / "control.token"
        token.write_text(TOKEN + "\n")
        self.daemon = self.server("server", None, "--control-token-file", token)
        self.node = self.agent(self.daemon.grpc)
        self.trainer("--foreshock", self.node.address, "--run", "team/gpt 1", "--steps", 1000000, "--quiet", name="gpt")
        playwright = sync_playwright().start()
        self.addCleanup(playwright.stop)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        self.addCleanup(browser.close)
        self.page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        self.page.set_default_timeout(PATIENCE_MS)
        self.wrong, self.loaded = [], []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda message: message.type == "error" and self.wrong.append(message.text))
        self.page.on("request", lambda request: self.loaded.append(request.url))

    def open(self, where=""):
        self.page.goto(f"http://{self.daemon.http}/{where}")

    def shown(self, selector):
        return self.page.locator(selector).first.inner_text()

    def step_shown(self):
        found = re.search(r"step ([\d,]+)", self.shown(".facts"))
        return int(found.group(1).replace(",", "")) if found else -1

    def open_run(self):
        until(lambda: (self.run_of(self.daemon, "team/gpt 1") or {"last_step": 0})["last_step"] >= 30, "30 steps")
        self.open()
        self.page.get_by_role("link", name="team/gpt 1").click()
        self.page.wait_for_selector("#heat-table td")

    def test_from_the_list_to_a_run_live_and_nothing_loaded_from_elsewhere(self):
        self.open_run()
        self.assertEqual(self.shown("h1"), "team/gpt 1")
        first = self.step_shown()
        until(lambda: (self.page.wait_for_timeout(200), self.step_shown() > first)[1], "the page to show later steps by itself")
        charts = self.page.locator(".chart canvas")
        self.assertGreaterEqual(charts.count(), 7)
        # Something is drawn in the loss chart in the first line's colour (#0969da), and words say it as well.
        drawn = charts.first.evaluate("""(canvas) => {
          const all = [...canvas.parentElement.querySelectorAll('canvas')];
          return Math.max(...all.map((c) => {
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let n = 0;
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 128 && d[i + 2] > 180 && d[i] < 60) ++n;
            return n;
          }));
        }""")
        self.assertGreater(drawn, 50)
        self.assertRegex(self.page.locator(".chart").first.get_attribute("aria-label"), r"loss: \d.* at step \d")
        self.assertTrue(all(url.startswith((f"http://{self.daemon.http}/", "data:")) for url in self.loaded), self.loaded)
        self.assertEqual(self.wrong, [])

    def test_the_map_shows_what_the_api_says_and_obeys_the_keyboard(self):
        self.open_run()
        self.page.locator("#heat-signal").select_option("logit_max")
        self.page.locator("#heat-step").focus()
        self.page.keyboard.press("Home")
        until(lambda: (self.page.wait_for_timeout(100), self.shown("output") == "step 0")[1], "the first sampled step")
        until(lambda: (self.page.wait_for_timeout(100), self.page.locator("#heat-table td[title]").count() == 8)[1], "8 heads")
        reply = self.get(self.daemon, "/api/v1/runs/team%2Fgpt%201/step/0", signal="logit_max")
        for series in reply["frame"]["series"]:
            for head, value in zip(series["heads"], series["values"]):
                cell = self.page.locator(f'td[title^="layer {series["layer"]}, head {head}:"]')
                until(lambda: (self.page.wait_for_timeout(100), abs(float(cell.inner_text()) - value) <= 1e-3 * abs(value) + 1e-9)[1],
                      lambda: f"{cell.inner_text()} to be {value}")

    def test_reads_only_until_the_token_is_given_and_acts_only_after_yes(self):
        self.open_run()
        propose = self.page.locator("#act-propose")
        self.assertFalse(propose.is_visible())
        self.give_token("not-the-token-at-all")
        self.page.get_by_text("The server does not know this token").wait_for()
        self.page.get_by_role("button", name="Close").click()
        self.assertFalse(propose.is_visible())
        self.give_token(TOKEN)
        propose.wait_for(state="visible")
        self.page.locator("#act-kind").select_option("checkpoint")
        self.page.locator("#act-reason").fill("a test <b>of</b> the page")
        propose.click()
        self.page.get_by_role("button", name="Cancel").click()
        self.assertEqual(self.actions(), [])
        propose.click()
        self.page.get_by_role("button", name="Yes, checkpoint").click()
        self.page.locator("#actions tbody tr").first.wait_for()
        recorded = self.actions()
        self.assertEqual([(a["action"]["kind"], a["action"]["issuer"]) for a in recorded], [("checkpoint", "web page")])
        self.assertIn("a test <b>of</b> the page", self.shown("#actions tbody"), "text, not HTML")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(
                f"http://{self.daemon.http}/api/v1/runs/team%2Fgpt%201/actions", data=b'{"kind":"stop"}',
                headers={"Content-Type": "application/json"}))
        self.assertEqual(refused.exception.code, 403)

    def give_token(self, token):
        self.page.locator("#control").click()
        self.page.locator("#token").fill(token)
        self.page.get_by_role("button", name="Use it").click()

    def actions(self):
        return self.get(self.daemon, "/api/v1/runs/team%2Fgpt%201/actions")["actions"]

    def test_a_critical_run_comes_first_with_its_alerts_and_compares(self):
        self.trainer("--foreshock", self.node.address, "--run", "wild", "--steps", 1000000, "--quiet", "--lr", "1000", "--warmup",
                     "0", name="wild")
        until(lambda: (self.run_of(self.daemon, "wild") or {"firing_criticals": 0})["firing_criticals"], "a critical alert")
        until(lambda: self.run_of(self.daemon, "team/gpt 1"), "the other run")
        self.open()
        self.page.locator("#runs tbody tr").nth(1).wait_for()
        self.assertEqual(self.page.locator("#runs tbody tr").first.get_attribute("data-run"), "wild")
        self.assertIn("critical", self.shown("#runs tbody tr"))
        for name in ("wild", "team/gpt 1"):
            self.page.get_by_role("checkbox", name=f"compare {name}").check()
        self.page.get_by_role("button", name="Compare 2 runs").click()
        self.page.get_by_role("heading", name="2 runs compared").wait_for()
        self.page.locator(".chart canvas").first.wait_for()
        # One step axis: a line a run in each chart, named, and the report of both is one link away.
        self.assertEqual(self.page.locator("figure").first.locator(".entry").all_inner_texts(), ["wild", "team/gpt 1"])
        self.assertGreaterEqual(self.page.locator(".chart canvas").count(), 7)
        self.assertEqual(self.page.get_by_role("link", name="Report").get_attribute("href"),
                         "/report?run=wild&run=team%2Fgpt%201")
        self.assertEqual(self.page.locator("#post-mortem").count(), 0)
        self.open("#/run/wild")
        self.page.locator("#alert-table tbody tr").first.wait_for()
        rules = {a["rule"] for a in self.get(self.daemon, "/api/v1/runs/wild/alerts")["alerts"]}
        shown = self.shown("#alert-table")
        self.assertTrue(any(rule in shown for rule in rules), shown)
        self.page.locator(".timeline button").first.click()
        self.page.locator("#heat-table").wait_for()
        self.page.get_by_role("link", name="What happened").click()
        self.page.locator("#what-happened dl").wait_for()
        self.assertIn("It began", self.shown("#what-happened"))

    def test_a_server_that_goes_away_is_said_and_dark_is_dark(self):
        self.open_run()
        light = self.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        self.page.emulate_media(color_scheme="dark")
        self.assertNotEqual(self.page.evaluate("() => getComputedStyle(document.body).backgroundColor"), light)
        nameless = self.page.evaluate("""() => [...document.querySelectorAll('button,select,input')].filter((e) =>
          getComputedStyle(e).display !== 'none' && !(e.labels && e.labels.length) &&
          !e.getAttribute('aria-label') && !e.textContent.trim()).map((e) => e.outerHTML)""")
        self.assertEqual(nameless, [], "every control has a name for screen readers")
        self.daemon.stop()
        self.page.locator("#offline").wait_for(state="visible")
        self.assertIn("does not answer", self.shown("#offline"))

    def test_an_unknown_run_is_said(self):
        self.open("#/run/nobody")
        self.page.get_by_role("heading", name="Not found").wait_for()


if __name__ == "__main__":
    if CHROMIUM is None:
        print("FORESHOCK_SKIPPED: chromium is not installed")
        sys.exit(0)
    tools_python.run_with("playwright")
    harness.main()
