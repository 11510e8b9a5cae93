// Where a queued event goes when a person moves it. The queue has the highest priority first, and ties in the order of arrival.

/** @typedef {{ id: string, priority: number }} Place What orders an event in the queue. */

/** @typedef {{ id: string, index: number, before: number, priority: number }} Placed An event with its index and its priority before the move. */

/**
 * Whether the queue has one event before another. Which of two arrived first is known only if they had the same priority.
 * @param {Placed} a @param {Placed} b
 */
const isBefore = (a, b) => a.priority > b.priority || (a.priority === b.priority && a.before === b.before && a.index < b.index);

/**
 * The new priorities that move an event to another place. They only rise, so that what is posted later stays behind.
 * @param {readonly Place[]} items In their order. @param {number} from @param {number} to
 * @returns {Place[]}
 */
export function moved(items, from, to) {
  const order = items.map(({ id, priority }, index) => ({ id, index, before: priority, priority }));
  order.splice(to, 0, ...order.splice(from, 1));
  return raised(order)
    .filter(({ before, priority }) => priority !== before)
    .map(({ id, priority }) => ({ id, priority }));
}

/** Gives events a higher priority where they are not before the next one. @param {readonly Placed[]} order */
function raised(order) {
  const out = [...order];
  for (let i = out.length - 2; i >= 0; i--) {
    if (isBefore(out[i], out[i + 1])) continue;
    const level = { ...out[i], priority: out[i + 1].priority };
    out[i] = isBefore(level, out[i + 1]) ? level : { ...level, priority: level.priority + 1 };
  }
  return out;
}
