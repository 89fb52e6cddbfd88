// A journal: records that are only ever added, each a line of JSON, in a file that survives a crash.
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';

export class Journal {
  #file;
  #length = 0; // bytes of whole records; what is behind them is of an append that failed
  #torn = false;

  /** Opens the journal and hands each of its records to read. */
  static async open(path, read) {
    const journal = new Journal();
    journal.#file = await openOrMake(path);
    const bytes = await journal.#file.readFile();
    // A crash within an append leaves a line without its end. Nobody was told that it was kept, so it goes.
    journal.#length = bytes.lastIndexOf(0x0a) + 1;
    journal.#torn = journal.#length < bytes.length;
    for (const line of bytes.subarray(0, journal.#length).toString().split('\n')) {
      if (line) read(JSON.parse(line)); // a line with an end that is no JSON is no crash's work: better not to start
    }
    await journal.#mend();
    return journal;
  }

  /** Adds a record. It is on the disk when this returns; when it throws, it is not in the journal. One at a time. */
  async append(record) {
    await this.#mend();
    const line = Buffer.from(`${JSON.stringify(record)}\n`);
    this.#torn = true;
    for (let done = 0; done < line.length;) {
      const { bytesWritten } = await this.#file.write(line, done, line.length - done, this.#length + done);
      done += bytesWritten;
    }
    await this.#file.sync();
    this.#length += line.length;
    this.#torn = false;
  }

  /** Takes away what a failed append left, so that the next line does not go on from half a line. */
  async #mend() {
    if (!this.#torn) return;
    await this.#file.truncate(this.#length);
    await this.#file.sync();
    this.#torn = false;
  }

  close() {
    return this.#file.close();
  }
}

async function openOrMake(path) {
  try {
    return await open(path, 'r+');
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  const file = await open(path, 'wx+', 0o600);
  const folder = await open(dirname(path)); // the file's name has to survive as well
  await folder.sync();
  await folder.close();
  return file;
}
