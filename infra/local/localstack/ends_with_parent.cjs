// Preloaded into kinesis-local when LocalStack runs it. LocalStack gives its children sessions of their own, so the guard
// that ends LocalStack's process group does not reach them; this process ends with its parent.
'use strict';

const parent = process.ppid;

setInterval(() => {
  if (process.ppid !== parent) process.exit(1);
}, 200).unref();
