export function getWorkflowMetadata() {
  throw new Error("there is no workflow runtime in these tests");
}
