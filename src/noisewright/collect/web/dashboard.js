// The analyst's dashboard: figures every few seconds, drawn here, from this server alone.

const main = document.querySelector("main");
const address = main.dataset.campaign;
const $ = (id) => document.getElementById(id);
const EVERY = 3000;
const SPACE = "http://www.w3.org/2000/svg";

const SESSION = "/api/session";
let round = null;

const people = (number) => Math.round(number).toLocaleString("en");
const figure = (number) => Number(number.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

// --- tiles ---------------------------------------------------------------------------------------

function tile(name, value, note, kind = "", ...more) {
  return element("div", { class: `tile ${kind}` }, element("span", {}, name), element("b", {}, value),
    element("small", {}, note), ...more);
}

function tiles(data) {
  const aside = Object.entries(data.set_aside).filter(([, count]) => count > 0);
  const total = aside.reduce((sum, [, count]) => sum + count, 0);
  const reasons = aside.map(([reason, count]) => `${people(count)} ${reason.replaceAll("_", " ")}`);
  const error = data.expected && data.people ? data.expected.unit / Math.sqrt(data.people) : null;
  const progress = data.target
    ? [element("progress", { max: data.target, value: Math.min(data.people, data.target), "aria-label": "Progress to the target" })]
    : [];
  const goal = data.target ? `of ${people(data.target)} wanted` : data.closed ? "closed" : "so far";
  return [
    tile("reports", people(data.people), goal, "", ...progress),
    tile("privacy", `ε = ${figure(data.epsilon)}`,
      data.spends_at_most > data.epsilon ? `a report; at most ${figure(data.spends_at_most)} a person` : "every report, every person"),
    tile("typical error", error === null ? "–" : `± ${figure(error)} %`, "of those who answered, standard error"),
    tile("set aside", people(total), reasons.join(", ") || "nothing", total > 0.01 * data.people ? "bad" : ""),
    ...(data.fit ? [fitTile(data.fit)] : []),
  ];
}

function fitTile(fit) {
  const name = `fit of the reports`;
  if (fit.status === "unknown") return tile(name, "–", fit.text);
  const alarm = fit.status === "alarm";
  return tile(name, alarm ? "does not fit" : "fits", fit.text, alarm ? "bad" : "good");
}

// --- charts --------------------------------------------------------------------------------------

function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((each) => each >= rough);
  const first = Math.ceil(low / step) * step;
  return Array.from({ length: Math.floor((high - first) / step + 1.000001) }, (_, i) => first + i * step);
}

// As wide as it is shown, so that letters have their size on a phone too.
const chartWidth = () => Math.round(Math.min(560, main.clientWidth - 80));

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function intervals(name, rows, whom) {
  const width = chartWidth();
  const [left, right, line, top] = [Math.round((width < 420 ? 0.42 : 0.34) * width), 62, 26, 8];
  const height = top + rows.length * line + 26;
  const low = Math.min(0, ...rows.map((row) => row.lower_all));
  const high = Math.max(1, ...rows.map((row) => row.upper_all));
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - right);
  const told = rows.map((row) => `${row.query}: ${people(row.answer)}, from ${people(row.lower)} to ${people(row.upper)}`);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}. ${told.join(". ")}` });
  for (const tick of ticks(low, high, width / 110)) {
    svg.append(drawn("line", { class: tick === 0 ? "zero" : "axis", x1: x(tick), x2: x(tick), y1: top, y2: height - 22 }),
      drawn("text", { x: x(tick), y: height - 6, "text-anchor": "middle" }, people(tick)));
  }
  rows.forEach((row, place) => {
    const y = top + line * (place + 0.5);
    svg.append(
      drawn("text", { class: "ink", x: left - 12, y: y + 4, "text-anchor": "end" }, shortened(row.label, Math.floor((left - 12) / 6.4))),
      drawn("line", { class: "all", x1: x(row.lower_all), x2: x(row.upper_all), y1: y, y2: y }),
      drawn("line", { class: "each", x1: x(row.lower), x2: x(row.upper), y1: y, y2: y }),
      drawn("circle", { class: "point", cx: x(row.answer), cy: y, r: 4.5 }),
      drawn("text", { class: "ink", x: width, y: y + 4, "text-anchor": "end" }, people(row.answer)));
  });
  return titled(name, whom, svg);
}

function titled(name, about, ...children) {
  return element("figure", {}, element("figcaption", {}, element("b", {}, name), about), ...children);
}

function convergence(data) {
  const { people: counts, error } = data.expected;
  const width = chartWidth();
  const [height, left, right, top, bottom] = [240, 56, 22, 12, 34];
  const logs = counts.map(Math.log10);
  const [low, high] = [Math.min(...error), Math.max(...error)].map(Math.log10);
  const x = (count) => left + ((Math.log10(count) - logs[0]) / (logs.at(-1) - logs[0])) * (width - left - right);
  const y = (value) => top + ((high - Math.log10(value)) / (high - low)) * (height - top - bottom);
  const label = "Expected error of an answer, as a share of all people, against the number of reports";
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (let power = Math.ceil(low); power <= high; power += 1) {
    svg.append(drawn("line", { class: "axis", x1: left, x2: width - right, y1: y(10 ** power), y2: y(10 ** power) }),
      drawn("text", { x: left - 8, y: y(10 ** power) + 4, "text-anchor": "end" }, `${figure(10 ** power)} %`));
  }
  for (let power = Math.ceil(logs[0]); power <= logs.at(-1); power += 1) {
    svg.append(drawn("line", { class: "axis", x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: height - bottom }),
      drawn("text", { x: x(10 ** power), y: height - bottom + 18, "text-anchor": "middle" }, people(10 ** power)));
  }
  const points = counts.map((count, i) => `${x(count)},${y(error[i])}`).join(" ");
  svg.append(drawn("polyline", { class: "line", points }));
  if (data.people >= counts[0]) {
    const now = data.expected.unit / Math.sqrt(data.people);
    svg.append(drawn("circle", { class: "point", cx: x(data.people), cy: y(now), r: 6 }),
      drawn("text", { class: "ink", x: x(data.people) - 10, y: y(now) + 18, "text-anchor": "end" }, "now"));
  }
  if (data.target && data.target <= counts.at(-1)) {
    const [goal, far] = [x(data.target), x(data.target) > width - 90];
    svg.append(drawn("line", { class: "goal", x1: goal, x2: goal, y1: top, y2: height - bottom }),
      drawn("text", { x: goal + (far ? -6 : 6), y: top + 12, "text-anchor": far ? "end" : "start" }, "target"));
  }
  return titled("How answers converge", "expected standard error, in percent of those who answered, against reports", svg);
}

function charts(data) {
  const asked = [...tablesOf(data.answers, "people, of those who answered")];
  if (data.expected) asked.splice(2, 0, convergence(data));
  const everybody = tablesOf(data.population, "people, weighted to the population’s public margins");
  const shown = [legend(), element("div", { class: "panels" }, ...asked)];
  if (!everybody.length) return shown;
  return [...shown, element("h2", {}, "In the population"),
    element("div", { class: "panels" }, ...everybody)];
}

function legend() {
  const key = (name, text) => element("span", {}, element("i", { class: `swatch ${name}` }), text);
  return element("p", { class: "quiet key" }, key("point", "estimate"), key("each", "95 % for each answer"),
    key("all", "95 % for all answers at once"));
}

function tablesOf(answers, whom) {
  const made = [];
  if (answers?.refused) return [titled("Not weighted", whom, element("p", {}, answers.refused))];
  if (answers) {
    const rows = answers.query.map((query, i) => ({
      table: answers.table[i], query, answer: answers.answer[i], lower: answers.lower[i], upper: answers.upper[i],
      lower_all: answers.lower_all[i], upper_all: answers.upper_all[i] }));
    const tables = Map.groupBy ? Map.groupBy(rows, (row) => row.table) : grouped(rows);
    for (const [name, part] of [...tables].slice(0, 12)) {
      const shown = part.slice(0, 24).map((row) => ({ ...row, label: labelOf(row.query, name) }));
      made.push(intervals(name, shown, whom));
    }
  }
  return made;
}

// A query without the attributes that the title of its chart names: "walk", "up to 10–19".
function labelOf(query, name) {
  const counted = name.startsWith("cdf of ") ? name.slice(7).split(" × ") : [];
  const label = query.replace(/(^|, )[^=,]+ = /g, "$1");
  return counted.reduce((text, attribute) => text.replace(`${attribute} up to `, "up to "), label);
}

function grouped(rows) {
  const tables = new Map();
  for (const row of rows) tables.set(row.table, [...(tables.get(row.table) ?? []), row]);
  return tables;
}

// --- notes and the table -------------------------------------------------------------------------

function notes(data) {
  const cards = [];
  if (data.fit) {
    const rows = data.fit.tests.map((test) => element("tr", {}, element("td", {}, test.name), element("td", {}, test.text)));
    cards.push(titled("Do the reports fit?", "", element("table", { class: "answers" }, ...rows), element("p", { class: "quiet" }, data.fit.about)));
  }
  if (data.influence) {
    cards.push(titled("What liars can do", "", element("p", {}, data.influence.text),
      element("p", { class: "quiet" }, data.influence.about)));
  }
  return cards;
}

function table(data) {
  const { answers } = data;
  if (!answers) return [];
  const names = ["table", "query", "answer", "std. error", "95 %", "all at once"];
  const head = element("tr", {}, ...names.map((name, i) => element("th", { class: i > 1 ? "number" : "", scope: "col" }, name)));
  const rows = answers.query.map((query, i) => {
    const texts = [answers.table[i], query, people(answers.answer[i]), people(answers.std_error[i]),
      `${people(answers.lower[i])} … ${people(answers.upper[i])}`,
      `${people(answers.lower_all[i])} … ${people(answers.upper_all[i])}`];
    return element("tr", {}, ...texts.map((text, place) => element("td", { class: place > 1 ? "number" : "" }, text)));
  });
  return [element("thead", {}, head), element("tbody", {}, ...rows)];
}

function choices(data) {
  const several = data.rounds.length > 0 && data.repetition.mode !== "once";
  $("rounds").hidden = $("rounds-label").hidden = !several;
  if (!several || $("rounds").options.length === data.rounds.length) return;
  $("rounds").replaceChildren(...data.rounds.map((name) => element("option", { value: name }, name)));
  $("rounds").value = round ?? data.round;
}

// --- the page ------------------------------------------------------------------------------------

const query = () => (round === null ? "" : `?round=${encodeURIComponent(round)}`);

function entrance(told = "") {
  $("content").hidden = true;
  $("entrance").hidden = false;
  $("refused").textContent = told;
}

async function refresh() {
  const answer = await fetch(`${address}/estimates${query()}`).catch(() => null);
  if (answer?.status === 401) {
    entrance("The session has ended.");
    return false;
  }
  if (!answer?.ok) {
    $("status").textContent = "The collector does not answer; trying again.";
    return true;
  }
  const data = await answer.json();
  $("entrance").hidden = true;
  $("content").hidden = false;
  $("tiles").replaceChildren(...tiles(data));
  const alarm = data.fit?.status === "alarm";
  $("warning").hidden = !alarm;
  if (alarm) $("warning").replaceChildren(element("p", {}, data.fit.warning));
  $("charts").replaceChildren(...charts(data));
  $("notes").replaceChildren(...notes(data));
  $("table").replaceChildren(...table(data));
  choices(data);
  $("status").textContent = `${data.mechanism}, as of ${new Date().toLocaleString("en-GB", { dateStyle: "long", timeStyle: "medium" })}`;
  return true;
}

async function download(name) {
  const answer = await fetch(`${address}/${name}${query()}`);
  if (!answer.ok) {
    $("status").textContent = (await answer.json()).detail;
    return;
  }
  const link = element("a", { href: URL.createObjectURL(await answer.blob()), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function follow() {
  for (;;) {
    if (document.visibilityState === "visible" && !(await refresh())) return;
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

// The key is posted once, for a session that no script can read; it is kept nowhere here.
async function enter(event) {
  event.preventDefault();
  const body = JSON.stringify({ key: $("key").value.trim() });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(SESSION, { method: "POST", headers, body }).catch(() => null);
  if (!answer) return entrance("The collector does not answer.");
  if (!answer.ok) return entrance((await answer.json()).detail);
  $("key").value = "";
  return open(await answer.json());
}

function open({ level }) {
  if (level === null) return entrance();
  for (const button of document.querySelectorAll("[data-needs]")) button.hidden = button.dataset.needs !== level;
  return follow();
}

async function leave() {
  await fetch(SESSION, { method: "DELETE" });
  location.reload();
}

$("entrance").addEventListener("submit", enter);
$("leave").addEventListener("click", leave);
$("rounds").addEventListener("change", () => {
  round = $("rounds").value;
  refresh();
});
for (const button of document.querySelectorAll("[data-file]")) {
  button.addEventListener("click", () => download(button.dataset.file));
}
open(await (await fetch(SESSION)).json());
