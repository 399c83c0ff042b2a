// The survey: a form from the campaign's questions, and a panel that shows what would be sent.
import { Campaign } from "./noisewright.js";

const main = document.querySelector("main");
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// --- questions -----------------------------------------------------------------------------------

function choices(question, place) {
  const name = `q${place}`;
  if (question.size > 12) {
    const empty = element("option", { value: "" }, "Please choose");
    const options = question.labels.map((label, code) => element("option", { value: code }, label));
    const select = element("select", { id: name, name, required: true }, empty, ...options);
    return element("div", { class: "question" }, element("label", { for: name }, question.text), select);
  }
  const options = question.labels.map((label, code) =>
    element("label", { class: "choice" },
      element("input", { type: "radio", name, value: code, required: true }), element("span", {}, label)));
  return element("fieldset", { class: "question" }, element("legend", {}, question.text), ...options);
}

const dayOf = (days) => new Date(days * 864e5).toISOString().slice(0, 10);

function typed(question, place) {
  const id = `q${place}`;
  const { kind, cuts, whole, labels, outside } = question;
  const edge = (cut) => (cut === null ? undefined : kind === "date" ? dayOf(cut) : cut);
  const [min, max] = outside === "clip" ? [] : [edge(cuts[0]), edge(cuts.at(-1))];
  const optional = labels.length > cuts.length - 1;
  const input = element("input", {
    id, name: id, type: kind, min, max, step: kind === "number" && !whole ? "any" : undefined,
    inputmode: kind === "number" ? (whole ? "numeric" : "decimal") : undefined, required: !optional,
    "aria-describedby": `${id}-hint`,
  });
  const span = min !== undefined && max !== undefined ? `${min} to ${max}. ` : "";
  const bands = `Only its band counts, out of ${cuts.length - 1}.`;
  const hint = element("small", { id: `${id}-hint`, class: "quiet" },
    span + bands + (optional ? " May be left empty." : ""));
  return element("div", { class: "question" }, element("label", { for: id }, question.text), input, hint);
}

const control = (question, place) => (question.kind === "choice" ? choices : typed)(question, place);

// --- the panel -----------------------------------------------------------------------------------

const bytesOf = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const hexadecimal = (text) => Array.from(bytesOf(text), (b) => b.toString(16).padStart(2, "0")).join(" ");

const SHOWN = 8;

class Panel {
  constructor(campaign, answers) {
    Object.assign(this, { campaign, answers, counts: new Map(), draws: 0 });
    $("again").addEventListener("click", () => this.draw(1));
    $("hundred").addEventListener("click", () => this.draw(100));
  }

  show() {
    const answers = this.answers();
    $("shown").hidden = answers === null;
    $("unanswered").hidden = answers !== null;
    if (answers === null) return;
    const report = this.campaign.prepare(answers);
    const body = { nonce: "a random number, drawn when you send", report };
    if (this.campaign.round) body.round = this.campaign.round;
    $("body").textContent = `POST ${this.campaign.address}/reports\n${JSON.stringify(body, null, 1)}`;
    const { header } = this.campaign.client;
    const rest = bytesOf(report).length - header.length;
    $("meaning").textContent =
      `The first ${header.length} bytes of the report name the public plan. The other ${rest === 1 ? "one" : rest} ` +
      `came out of the dice: ${this.tail(report)}.`;
    [this.counts, this.draws] = [new Map(), 0];
    this.count(report);
    this.chart(this.tail(report));
  }

  label(cell) {
    const labels = [];
    for (const { size, labels: names } of [...this.campaign.document.questions].reverse()) {
      labels.unshift(names[Number(cell % BigInt(size))]);
      cell /= BigInt(size);
    }
    return labels.join(", ");
  }

  members(bytes) {
    const held = [...bytes].flatMap((byte, i) =>
      [...Array(8).keys()].filter((bit) => (byte >> (7 - bit)) & 1).map((bit) => 8 * i + bit));
    return held.map((cell) => this.label(BigInt(cell))).join("; ") || "none";
  }

  // Reports that are simply some answer, or some answers, are named so; all others by their bytes.
  tail(report) {
    const { header } = this.campaign.client;
    const { client } = this.campaign.document;
    if (client.specification.nodes.at(-1).owner?.by === "self") {
      const bytes = bytesOf(report).slice(header.length);
      return this.label(bytes.reduceRight((total, byte) => total * 256n + BigInt(byte), 0n));
    }
    const { op, cells } = client.specification.nodes.at(-1);
    if ((op === "subset" || op === "flip") && cells <= 64) return this.members(bytesOf(report).slice(header.length));
    const shown = hexadecimal(report).split(" ").slice(header.length);
    return shown.length > 16 ? `${shown.slice(0, 16).join(" ")} …` : shown.join(" ");
  }

  count(report) {
    const name = this.tail(report);
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    this.draws += 1;
  }

  draw(times) {
    const answers = this.answers();
    if (answers === null) return;
    for (let i = 0; i < times; i += 1) this.count(this.campaign.example(answers));
    this.chart(this.tail(this.campaign.prepare(answers)));
  }

  chart(own) {
    const all = [...this.counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
    const rows = all.slice(0, SHOWN);
    if (!rows.some(([name]) => name === own)) rows.push([own, this.counts.get(own)]);
    const most = rows[0][1];
    $("tally").replaceChildren(...rows.map(([name, count]) => {
      const bar = element("i", { class: name === own ? "bar own" : "bar" });
      bar.style.width = `${(100 * count) / most}%`;
      return element("div", { class: "bar-row" }, element("span", { class: "name" }, name),
        element("span", { class: "track" }, bar), element("span", { class: "value quiet" }, String(count)));
    }));
    const more = this.counts.size > rows.length ? `, the most frequent shown` : "";
    $("drawn").textContent = `${this.draws} drawn, ${this.counts.size} different${more}`;
    $("tally").setAttribute("aria-label", rows.map(([name, count]) => `${name}: ${count}`).join("; "));
  }
}

// --- the page ------------------------------------------------------------------------------------

const UNANSWERED = "Please answer every question first.";

// What was said of missing answers holds until none is missing.
function answeredMore(campaign, panel) {
  panel.show();
  if ($("told").textContent === UNANSWERED && answersOf(campaign) !== null) $("told").textContent = "";
}

function answersOf(campaign) {
  const data = new FormData($("form"));
  const answers = campaign.document.questions.map((_, place) => data.get(`q${place}`));
  if (answers.some((answer) => answer === null)) return null;
  const chosen = campaign.document.questions.every((q, i) => q.kind !== "choice" || answers[i] !== "");
  if (!chosen) return null;
  try {
    campaign.cell(answers);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null;
  }
  return answers;
}

function finish(campaign, text) {
  $("form").hidden = true;
  $("done").hidden = false;
  $("done").replaceChildren(element("p", {}, text));
  if (campaign.document.repetition.mode !== "once") {
    $("done").append(element("p", { class: "quiet" }, "You can answer again in the next round."));
  }
  $("done").focus();
}

async function submit(campaign, event) {
  event.preventDefault();
  const answers = answersOf(campaign);
  if (answers === null && campaign.answered === "no") {
    $("told").textContent = UNANSWERED;
    $("form").querySelector(":invalid")?.focus();
    return;
  }
  $("send").disabled = true;
  $("told").textContent = "Sending …";
  try {
    await campaign.send(answers, $("token").value.trim() || undefined);
    finish(campaign, "Thank you. Your report was received; your answer never left this device.");
  } catch (error) {
    $("told").textContent = `Not sent: ${error.message}. Press Send to try the same report again.`;
  } finally {
    $("send").disabled = false;
  }
}

function describe(campaign) {
  const { document: about } = campaign;
  const spends = about.spends_at_most > campaign.epsilon ? ` In all, at most ε\u00a0=\u00a0${about.spends_at_most}.` : "";
  $("check").className = "notice good";
  $("check").replaceChildren(element("p", {}, element("b", {}, "Checked on this device. "), campaign.words));
  $("promise").textContent = about.promise + spends;
  $("fingerprint").textContent = `Plan ${about.client.digest}, fetched whole and verified before you were asked.`;
}

async function start() {
  let campaign;
  try {
    campaign = await Campaign.load(main.dataset.campaign);
  } catch (error) {
    $("check").className = "notice bad";
    $("check").replaceChildren(element("p", {}, `You are not asked anything: ${error.message}.`));
    return;
  }
  describe(campaign);
  if (campaign.document.closed) return finish(campaign, "This survey is closed.");
  if (campaign.answered === "yes") return finish(campaign, "This browser has answered already. Thank you.");
  if (campaign.answered === "no" && !campaign.left) {
    return finish(campaign, "What you allowed to be spent is spent: nothing more is sent.");
  }
  $("questions").append(...campaign.document.questions.map(control));
  $("invitation").hidden = !campaign.document.invitations;
  $("token").value = new URLSearchParams(location.hash.slice(1)).get("invitation") ?? "";
  if (campaign.answered === "waiting") {
    $("questions").hidden = $("panel").hidden = true;
    $("told").textContent = "A report from before was drawn and perhaps not received.";
  }
  const panel = new Panel(campaign, () => answersOf(campaign));
  $("form").addEventListener("input", () => answeredMore(campaign, panel));
  $("form").addEventListener("submit", (event) => submit(campaign, event));
  $("form").hidden = false;
  panel.show();
}

start();
