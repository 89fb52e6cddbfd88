// The places of a show and who has reserved them. What has happened is in a journal; what follows from it is in memory.
import { Journal } from './journal.mjs';

export class Store {
  #journal;
  #queue = Promise.resolve(); // changes are made one after the other
  #reservations = new Map();
  #seen = new Set(); // ids of the deliveries that are done
  #free;

  static async open(path, places) {
    const store = new Store();
    store.#free = places;
    store.#journal = await Journal.open(path, (record) => store.#apply(record));
    return store;
  }

  /** Keeps a place until a moment. Returns the reservation, or null if there is none free or the name is taken. */
  reserve(name, until) {
    return this.#change(async () => {
      if (this.#free === 0 || this.#reservations.has(name)) return null;
      await this.#record({ reserved: name, until });
      return this.get(name);
    });
  }

  /**
   * Frees a reservation that is over, once: what is done and that it is done are one record, so that no crash can come
   * between them. Duplicates at the same moment wait for each other here. Returns what became of it.
   */
  expire(delivery, name, until) {
    return this.#change(async () => {
      if (this.#seen.has(delivery)) return 'duplicate';
      const r = this.#reservations.get(name);
      // This scheme signs the body and not the ids, so the effect hangs on the body alone: this reservation, if it still ends
      // when it did then. Under another id, or after the reservation was prolonged, the same body does nothing.
      const frees = r !== undefined && r.state === 'held' && r.until === until;
      await this.#record({ delivery, ...(frees && { freed: name }) });
      return frees ? 'freed' : 'nothing to free';
    });
  }

  get(name) {
    const r = this.#reservations.get(name);
    return r && { name, ...r };
  }

  get free() {
    return this.#free;
  }

  /** Lets what has begun end, and closes the file. */
  async close() {
    await this.#queue;
    await this.#journal.close();
  }

  #change(work) {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {}); // who asked is told; the next one begins afresh
    return done;
  }

  async #record(record) {
    await this.#journal.append(record); // throws: nothing has happened
    this.#apply(record);
  }

  #apply({ reserved, until, delivery, freed }) {
    if (reserved) {
      this.#reservations.set(reserved, { state: 'held', until });
      this.#free--;
    }
    if (delivery) this.#seen.add(delivery);
    if (freed) {
      this.#reservations.get(freed).state = 'freed';
      this.#free++;
    }
  }
}
