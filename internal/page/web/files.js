// Files that a person drops, those in folders too.

/** @typedef {{ file: File, name: string }} NamedFile A file, and its path below what was dropped. */

/** @param {File[]} files @returns {NamedFile[]} */
export const named = (files) => files.map((file) => ({ file, name: file.name }));

/** The files of a drop. Hidden ones and node_modules in folders are left out. @param {DataTransfer} dropped @returns {Promise<NamedFile[]>} */
export async function droppedFiles(dropped) {
  // Entries are there only until the event has ended.
  const entries = [...dropped.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  if (entries.length === 0) return named([...dropped.files]);
  return (await Promise.all(entries.map(below))).flat();
}

/** @param {FileSystemEntry} entry @returns {Promise<NamedFile[]>} */
async function below(entry) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => /** @type {FileSystemFileEntry} */ (entry).file(done, failed));
    return [{ file, name: entry.fullPath.replace(/^\//, "") || file.name }];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {NamedFile[]} */
  const files = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((done, failed) => reader.readEntries(done, failed)); // a batch at a time
    if (some.length === 0) return files;
    for (const one of some) if (!one.name.startsWith(".") && one.name !== "node_modules") files.push(...(await below(one)));
  }
}
