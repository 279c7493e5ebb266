// What was typed into the form of a run outlives a reload: it is in the storage of this tab, under the user's name. A page that is
// new (`asks`) is told what is there; from then on what the page says counts, and where it says nothing, nothing is kept.
export default function ({ data, setTriggerValue }) {
  const key = `longtail-draft:${data.user}`;
  try {
    if (data.draft !== null) sessionStorage.setItem(key, data.draft);
    else if (!data.asks) sessionStorage.removeItem(key);
    else if (sessionStorage.getItem(key) !== null) setTriggerValue("found", sessionStorage.getItem(key));
  } catch (error) {
    console.info(`Longtail: this browser keeps no draft (${error.name})`); // storage is turned off, or full
  }
}
