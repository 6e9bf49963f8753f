// Waits for the first notice that decides about a start, whichever way the notices come.

const DECISIVE = ["started", "stopped", "finished"]; // a run that never starts is stopped or finished

// `subscribe({ announce, confirmed, failed, signal })` opens the way and keeps it open: it calls `confirmed` whenever the
// way is open (again), `announce(notice)` for each notice, and `failed(error)` if the way can never open.
// `read()` returns the notices that were sent already. It is tried again unless the API refuses it: an error's `status`.
export function firstNotice({ subscribe, read, signal }) {
  return new Promise((resolve, reject) => {
    const announce = (notice) => DECISIVE.includes(notice.kind) && resolve(notice);
    // read when the way is open: a notice that is sent between a read and the opening would be missed
    const confirmed = async () => {
      while (!signal.aborted) {
        try {
          return (await read()).forEach(announce);
        } catch (error) {
          if (error.status && error.status < 500) return reject(error);
          await pause(1000); // the API is away for a while
        }
      }
    };
    subscribe({ announce, confirmed, failed: reject, signal });
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

export const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));
