// The npm package redlock at the same work as bench/src/work.rs: peer.mjs WHO WORK URL NAME COUNT HOLD_US.
// Its packages are where PORTALOCK_BENCH_NODE says.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.PORTALOCK_BENCH_NODE + "/");
const Redis = require("ioredis");
const Redlock = require("redlock");

const [, work, url, name, countText, holdText] = process.argv.slice(2);
const count = Number(countText);
const hold = Number(holdText) / 1000;
const now = () => Number(process.hrtime.bigint());
const client = new (Redis.default ?? Redis)(url);
await client.ping();
const redlock = new (Redlock.default ?? Redlock)([client], { retryCount: -1 });
const acquire = () => redlock.lock(name, 10000);

async function pair() {
  const spans = [];
  for (let i = -20; i < count; i++) {
    const begin = now();
    const lock = await acquire();
    const acquired = now();
    await lock.unlock();
    if (i >= 0) spans.push([acquired - begin, now() - begin]);
  }
  return spans;
}

async function contend() {
  console.log("ready");
  await new Promise((go) => createInterface(process.stdin).once("line", go));
  const stays = [];
  for (let i = 0; i < count; i++) {
    const lock = await acquire();
    const enter = now();
    if (hold >= 1000) console.log(JSON.stringify(enter));
    if (hold) await sleep(hold);
    const leave = now();
    await lock.unlock();
    stays.push([enter, leave]);
  }
  return stays;
}

console.log(JSON.stringify(await { pair, contend }[work]()));
process.exit(0);
