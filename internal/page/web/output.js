// What a tool returned, as people read it.

/**
 * The parts of a result. What a command wrote is text; the rest of its result is told in words.
 * @param {string} output
 * @returns {{ text: string, error: string, rest: string }}
 */
export function outputOf(output) {
  const command = commandOf(output);
  if (!command) return { text: output, error: "", rest: "" };
  return {
    text: command.stdout,
    error: command.stderr,
    rest: [
      `exit code ${command.exitCode}`,
      command.error,
      command.stdoutTruncated && "the middle of the output was cut",
      command.stderrTruncated && "the middle of the standard error was cut",
    ]
      .filter(Boolean)
      .join(" · "),
  };
}

/**
 * @param {string} output
 * @returns {{ stdout: string, stderr: string, exitCode: number, stdoutTruncated?: boolean, stderrTruncated?: boolean, error?: string } | undefined}
 */
function commandOf(output) {
  try {
    const parsed = JSON.parse(output);
    return typeof parsed?.stdout === "string" && typeof parsed.stderr === "string" && typeof parsed.exitCode === "number" ? parsed : undefined;
  } catch {
    return undefined;
  }
}
