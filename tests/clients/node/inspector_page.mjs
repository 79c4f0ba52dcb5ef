// The Inspector's page in headless Chromium, as a person uses it: it obeys lines of JSON, one step each, and tells what
// the page shows when it waits for the person again. A step is one of
//   {"server": name}                                   load the page anew, and connect to a server of its list
//   {"tool": title, "fields": {label: value, …}}       fill in the form of a tool, and call it
//   {"press": button, "fields": {label: value, …}}     fill in the form of a question, and press one of its buttons
//   {"look": screen}                                   the text of a monitoring screen, such as Tasks
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const SECONDS = 30;
const QUIET = [
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
// So wide that the Inspector's notices, below on the right, do not lie over the buttons of its questions.
const SCREEN = { width: 1600, height: 1000 };
// To be drawn without a graphics card, movement takes half of all the work.
const STILL = { content: "*, *::before, *::after { transition: none !important; animation: none !important; }" };
const [executablePath, address] = process.argv.slice(2);
process.env.TMPDIR = process.cwd(); // for the browser's profile, also when this process is killed

const browser = await chromium.launch({ executablePath, args: QUIET });
const page = await browser.newPage({ viewport: SCREEN });
page.setDefaultTimeout(SECONDS * 1000);

const steps = {
  async server({ server }) {
    await page.goto(address);
    await page.addStyleTag(STILL);
    // The switch is an invisible box under its picture.
    await page.getByRole("switch", { name: `"${server}"` }).check({ force: true });
    await page.locator('[data-testid="connection-status"][data-status="connected"]').waitFor({ state: "attached" });
    return { revision: await page.getByText(/^MCP \d{4}-\d\d-\d\d$/).innerText() };
  },
  async tool({ tool, fields }) {
    await page.getByRole("radiogroup").getByText("Tools", { exact: true }).click();
    const screen = page.getByTestId("tools-screen");
    await screen.getByText(tool, { exact: true }).first().click();
    await fill(screen, fields);
    await screen.getByRole("button", { name: "Execute Tool" }).click();
    return shown();
  },
  async press({ press, fields = {} }) {
    const dialog = page.getByRole("dialog");
    const before = await dialog.getByRole("button", { name: "Cancel" }).elementHandle();
    await fill(dialog, fields);
    await dialog.getByRole("button", { name: press, exact: true }).click();
    // A browser's tab that is opened answers nothing yet.
    if (press !== "Open in Browser") await before.waitForElementState("hidden");
    return shown();
  },
  async look({ look }) {
    await page.getByRole("radiogroup", { name: "Monitoring screen" }).getByText(look, { exact: true }).click();
    await page.getByRole("heading", { name: look, exact: true }).waitFor();
    return { text: await page.getByRole("main").innerText() };
  },
};

// What the page shows: a question of the server, or the result of the call.
async function shown() {
  const dialog = page.getByRole("dialog");
  const results = page.getByRole("heading", { name: "Results" });
  await dialog.getByRole("button", { name: "Cancel" }).or(results).waitFor();
  return (await results.isVisible()) ? result() : question(dialog);
}

async function question(dialog) {
  const [message, ...notes] = await dialog.locator(".mantine-Modal-body p").allTextContents();
  const address = dialog.locator("pre");
  const submit = dialog.getByRole("button", { name: "Submit" });
  return {
    message: message.replace(/^“|”$/g, ""),
    notes,
    address: (await address.count()) ? await address.innerText() : null,
    fields: await fieldsOf(dialog),
    complete: (await submit.count()) > 0 && (await submit.isEnabled()),
  };
}

async function result() {
  const screen = page.getByTestId("tools-screen");
  const texts = await screen.locator("pre").allTextContents();
  return { result: texts.join("\n") || (await screen.innerText()).split("Results\n")[1] };
}

// The fields of a form by their labels, in their order, with what a person reads of each.
async function fieldsOf(place) {
  const fields = {};
  for (const input of await place.locator("input:not([type=hidden], [role=switch]), textarea").all()) {
    const { label, ...field } = await input.evaluate((each) => {
      const near = each.closest(".mantine-InputWrapper-root") ?? each.parentElement;
      const kind = each.getAttribute("aria-haspopup") === "listbox" ? "choice" : each.type;
      const chosen = [...near.querySelectorAll(".mantine-Pill-label")].map((pill) => pill.textContent);
      return {
        label: each.labels[0].textContent.replace(/ \*$/, ""),
        required: each.labels[0].textContent.endsWith(" *"),
        description: near.querySelector(".mantine-InputWrapper-description")?.textContent ?? "",
        value: { checkbox: each.checked, hidden: chosen }[each.dataset.type ?? kind] ?? each.value,
        kind,
      };
    });
    if (field.kind === "choice") field.options = await open(input, (options) => options.allTextContents());
    fields[label] = field;
  }
  return fields;
}

async function fill(place, fields) {
  for (const [label, value] of Object.entries(fields)) {
    const named = { name: label, exact: true };
    const input = place.getByRole("textbox", named).or(place.getByRole("checkbox", named));
    if (typeof value === "boolean") await input.setChecked(value);
    else if (await input.getAttribute("aria-haspopup")) await open(input, (options) => choose(options, value));
    else await input.fill(String(value));
  }
}

async function choose(options, value) {
  for (const each of [value].flat()) await options.filter({ hasText: each }).click();
}

// Opens the list of a field, does something with its options, and closes it.
async function open(input, use) {
  await input.click({ force: true }); // a picture lies over it
  const options = page.getByRole("option");
  await options.first().waitFor();
  const used = await use(options);
  await input.press("Escape");
  await options.first().waitFor({ state: "hidden" });
  return used;
}

async function step(request) {
  const [name] = Object.keys(steps).filter((each) => each in request);
  try {
    return await steps[name](request);
  } catch (error) {
    return { error: error.message, page: await page.locator("body").innerText() };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await step(JSON.parse(line))));
}
await browser.close();
