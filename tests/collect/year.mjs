// A person's device through many days, with a clock and a collector of our own.
import { readFileSync } from "node:fs";
import { Campaign } from "../../src/noisewright/collect/web/noisewright.js";

const { document, days, from } = JSON.parse(readFileSync(0, "utf8"));
const Real = Date;
let now = new Real(from);
globalThis.Date = class extends Real {
  constructor(...given) {
    super(...(given.length ? given : [now.getTime()]));
  }
};
const kept = new Map();
const storage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, text) => kept.set(name, text) };
const sent = [];
globalThis.fetch = async (address, request) => {
  if (!request?.body) return { ok: true, json: async () => JSON.parse(JSON.stringify(document)) };
  sent.push(JSON.parse(request.body));
  return { ok: true, json: async () => ({ status: "accepted" }) };
};
const told = [];
let campaign;
for (const [day, answers] of days.entries()) {
  if (day % 30 === 0) campaign = await Campaign.load("/api", { storage }); // the page is opened anew
  try {
    told.push(await campaign.send(answers));
  } catch (error) {
    told.push(error.message);
  }
  now = new Real(now.getTime() + 864e5);
}
process.stdout.write(JSON.stringify({ sent, told, memory: JSON.parse([...kept.values()][0] ?? "null") }));
