// Waits for the first notice that decides about a start, whichever way the notices come.

const DECISIVE = ["started", "stopped", "finished"]; // a run that never starts is stopped or finished

// `subscribe({ announce, confirmed, failed, signal })` opens the way and keeps it open: it calls `confirmed` whenever the
// way is open (again), `announce(notice)` for each notice, and `failed(error)` if the way can never open.
// `read()` returns the notices that were sent already.
export function firstNotice({ subscribe, read, signal }) {
  return new Promise((resolve, reject) => {
    const announce = (notice) => DECISIVE.includes(notice.kind) && resolve(notice);
    // read when the way is open: a notice that is sent between a read and the opening would be missed
    const confirmed = () => read().then((notices) => notices.forEach(announce)).catch(reject);
    subscribe({ announce, confirmed, failed: reject, signal });
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

export const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));
