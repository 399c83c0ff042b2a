// Scripted people: each one loads the campaign, checks it, draws a report and sends it.
import { readFileSync } from "node:fs";
import { Campaign } from "../../src/noisewright/collect/web/noisewright.js";

const { address, people, days = 1, options = {} } = JSON.parse(readFileSync(0, "utf8"));

class Memory {
  constructor() {
    this.kept = new Map();
  }
  getItem(name) {
    return this.kept.get(name) ?? null;
  }
  setItem(name, text) {
    this.kept.set(name, text);
  }
}

const statuses = {};
const sent = [];
const waiting = [...people.entries()];
async function answering() {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const storage = new Memory();
    const [, answers] = next;
    const campaign = await Campaign.load(address, { ...options, storage });
    const status = await campaign.send(answers, undefined, 8);
    statuses[status] = (statuses[status] ?? 0) + 1;
    sent.push(campaign.answered);
  }
}
await Promise.all(Array.from({ length: 8 }, answering));
process.stdout.write(JSON.stringify({ statuses, answered: new Set(sent).size, days }));
