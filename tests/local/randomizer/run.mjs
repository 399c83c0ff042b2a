// Runs what standard input lists in the JavaScript client, for the tests.
import { readFileSync } from "node:fs";
import { Client, Randomizer } from "../../../src/noisewright/collect/web/noisewright.js";

function attempt(work) {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return { refused: error.message };
  }
}

function verified(specification) {
  const { epsilon, ratio, exact } = new Randomizer(specification).verify();
  return { epsilon, ratio: ratio && ratio.map(String), exact };
}

function randomized({ specification, reports }) {
  const randomizer = new Randomizer(specification);
  return reports.map(([value, random]) => {
    const bytes = Buffer.from(random, "hex");
    let read = 0;
    const report = randomizer.randomize(BigInt(value), (count) => {
      if (read + count > bytes.length) throw new Error("more bytes are read than in Python");
      return bytes.subarray(read, (read += count));
    });
    return [Buffer.from(report).toString("hex"), read];
  });
}

const { documents = [], cases = [], clients = [] } = JSON.parse(readFileSync(0, "utf8"));
const sent = ({ exported, values }) => {
  const client = new Client(exported);
  return values.map((value) => Buffer.from(client.report(value)).toString("hex"));
};
process.stdout.write(
  JSON.stringify({
    documents: documents.map((document) => attempt(() => verified(document))),
    cases: cases.map((each) => attempt(() => randomized(each))),
    clients: clients.map((each) => attempt(() => sent(each))),
  }),
);
