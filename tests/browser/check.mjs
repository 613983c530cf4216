// Checks the HTML report in a browser; see the file `run` beside this one.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import * as pages from "./pages.mjs";

const [root, ...flags] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "orchestr-browser-"));
const LIMIT = 1_000_000;

/** The output of the program, whose exit code 1 means that pods have problems and 2 that it is unknown. */
function orchestr(args, input, expected) {
  let code = 0;
  let page;
  try {
    page = execFileSync(process.env.ORCHESTR, args, { input, maxBuffer: 1 << 26, stdio: ["pipe", "pipe", "inherit"] });
  } catch (error) {
    if (error.status === null || error.status === undefined) throw error;
    [code, page] = [error.status, error.stdout];
  }
  assert.equal(code, expected, `exit code of orchestr ${args.join(" ")}`);
  return page.toString();
}

const show = (object, code) =>
  orchestr(["show", "orchestr-system/cluster", "-f", "-", "-o", "html"], JSON.stringify(object), code);

/** Opens a page, and returns it with what it did beyond showing itself. */
async function open(context, name, html) {
  const file = join(folder, `${name}.html`);
  writeFileSync(file, html);
  const url = pathToFileURL(file).href;
  const page = await context.newPage();
  const trouble = [];
  page.on("request", (request) => request.url() === url || trouble.push(`request: ${request.url()}`));
  page.on("console", (message) => trouble.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  page.on("popup", () => trouble.push("popup"));
  page.on("framenavigated", (frame) => frame.url() === url || trouble.push(`navigation: ${frame.url()}`));
  page.on("dialog", async (dialog) => {
    trouble.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  await page.goto(url, { waitUntil: "load" });
  return { page, trouble };
}

/** What axe-core finds, all of it, on the page as it is. */
async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 200)}: ${nodes[0].failureSummary}`);
}

const setOpen = (page, open) =>
  page.evaluate((open) => document.querySelectorAll("details").forEach((own) => { own.open = open; }), open);

async function check(browser, name, html) {
  const started = Date.now();
  assert.ok(Buffer.byteLength(html) < LIMIT, `${name} has ${Buffer.byteLength(html)} bytes`);
  // Of the large page, which takes axe-core long, only the state with everything open is checked.
  const isLarge = Buffer.byteLength(html) > 100_000;
  for (const colorScheme of isLarge ? ["light"] : ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
    const { page, trouble } = await open(context, name, html);
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 900 });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} px wider than a window of ${width} px`);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    if (!isLarge) assert.deepEqual(await violations(page), [], `${name}, ${colorScheme}`);
    await setOpen(page, true);
    assert.deepEqual(await violations(page), [], `${name}, ${colorScheme}, all open`);
    assert.deepEqual(trouble, [], `${name}, ${colorScheme}`);
    await context.close();
  }
  await checkPrint(browser, name, html);
  console.log(`${name}: ${Buffer.byteLength(html)} bytes, ${Date.now() - started} ms`);
}

/** Paper cannot be opened: what is closed on the screen is printed. */
async function checkPrint(browser, name, html) {
  const context = await browser.newContext();
  const { page, trouble } = await open(context, name, html);
  await setOpen(page, false);
  const visible = () => page.evaluate(() =>
    [...document.querySelectorAll("samp, details p")].filter((own) => own.checkVisibility()).length);
  const all = await page.locator("samp, details p").count();
  assert.equal(await visible(), 0, `${name}: closed parts are visible on the screen`);
  await page.emulateMedia({ media: "print" });
  assert.equal(await visible(), all, `${name}: closed parts are not printed`);
  const pdf = await page.pdf({ format: "A4" });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  assert.deepEqual(trouble, [], name);
  await context.close();
}

/** Without scripts, the text of every log is on the page. */
async function checkWithoutScripts(browser, html, texts) {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const { page, trouble } = await open(context, "without-scripts", html);
  const closed = page.locator("details.pod:not([open]) > summary");
  for (let left = await closed.count(); left > 0; left -= 1) await closed.first().click();
  const text = await page.locator("body").innerText();
  for (const expected of texts) assert.ok(text.includes(expected), `${expected} is missing from:\n${text}`);
  // Opening and the links of the overview need no script either.
  await page.locator("tbody a").first().click();
  assert.match(page.url(), /#w1$/);
  assert.deepEqual(trouble.filter((own) => !own.endsWith("#w1")), []);
  await context.close();
}

/** Only our own elements and attributes exist, and the texts are what was given. */
async function checkHostile(browser, html) {
  const context = await browser.newContext();
  const { page } = await open(context, "hostile", html);
  const found = await page.evaluate(() => {
    const elements = [...document.querySelectorAll("*")];
    return {
      tags: [...new Set(elements.map((own) => own.localName))].sort(),
      attributes: [...new Set(elements.flatMap((own) => own.getAttributeNames()))].sort(),
      links: [...document.links].map((own) => own.getAttribute("href")),
      logs: [...document.querySelectorAll("samp")].map((own) => own.textContent),
    };
  });
  const known = "a bdi body b br defs details footer h1 h2 h3 head header html li main meta p path pattern pre rect samp section "
    + "small strong style summary svg table tbody td text th thead time title tr ul";
  assert.deepEqual(found.tags.filter((tag) => !known.split(" ").includes(tag)), []);
  assert.deepEqual(found.attributes,
    ["aria-label", "charset", "class", "content", "d", "datetime", "dir", "fill", "height", "href", "http-equiv", "id", "lang",
      "name", "open", "patternUnits", "role", "scope", "text-anchor", "viewBox", "width", "x", "y"]);
  assert.deepEqual(found.links, ["#w1"]);
  const cleaned = pages.attack.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e]/g, "\ufffd");
  assert.deepEqual([...new Set(found.logs)], [`\n${cleaned}\n    second line ${cleaned}\n`]);
  await context.close();
}

/** That the checks above find anything. */
async function checkTheChecks(browser) {
  const context = await browser.newContext();
  const body = "<img src=http://127.0.0.1:9/x><script>alert(1)</script>";
  const { page, trouble } = await open(context, "bad", `<title>bad</title>${body}`);
  assert.ok(trouble.includes("request: http://127.0.0.1:9/x") && trouble.includes("dialog: 1"), trouble.join("\n"));
  assert.ok((await violations(page)).some((own) => own.startsWith("image-alt ")));
  // The policy of the page stops what an escape that fails would let through, and is heard.
  const policy = /<meta http-equiv="Content-Security-Policy"[^>]*>/.exec(show(pages.empty, 0))[0];
  const blocked = await open(context, "blocked", `${policy}<title>bad</title>${body}<p style="color:red">`);
  assert.ok(!blocked.trouble.some((own) => /^(dialog|navigation)/.test(own)), blocked.trouble.join("\n"));
  assert.equal(blocked.trouble.filter((own) => /Content Security Policy/.test(own)).length, 3, blocked.trouble.join("\n"));
  await context.close();
}

async function takePictures(browser, html) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ colorScheme, viewport: { width: 1040, height: 1180 } });
    const { page } = await open(context, "normal", html);
    await page.screenshot({ path: join(root, `docs/images/report-${colorScheme}.png`) });
    if (colorScheme === "light") {
      await page.locator(".timeline").screenshot({ path: join(root, "docs/images/history.png") });
    }
    await context.close();
  }
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  // In a container, and as root, Chromium has no sandbox of its own.
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
try {
  const normal = show(pages.normal, 1);
  const hostile = show(pages.hostile, 1);
  await checkTheChecks(browser);
  await check(browser, "normal", normal);
  await check(browser, "hostile", hostile);
  await check(browser, "large", show(pages.large, 1));
  await check(browser, "empty", show(pages.empty, 0));
  await check(browser, "unknown", show(pages.unknown, 2));
  const realPods = ["scan", "-f", join(root, "tests/fixtures/real-pods.json"), "-o", "html"];
  await check(browser, "real-pods", orchestr(realPods, "", 1));
  await checkHostile(browser, hostile);
  await checkWithoutScripts(browser, normal, ["WARN  heap at 511 MiB of 512 MiB", "KeyError: 'PAYMENTS_URL'", "node-4 does not report"]);
  if (flags.includes("--pictures")) await takePictures(browser, normal);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
