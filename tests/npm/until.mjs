import { setTimeout as sleep } from "node:timers/promises";

/** How long scripts wait for a condition: far above its duration on a machine that is busy and slow. */
export const patience = 300_000;

/** Waits until a condition holds, and else fails with what it says. */
export async function until(condition, says = () => `not reached: ${condition}`) {
  for (const end = Date.now() + patience; !(await condition()); await sleep(10)) if (Date.now() >= end) throw new Error(says());
}
