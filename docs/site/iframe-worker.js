// A browser starts no worker for a page that was opened from disk; the search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.send = data => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      this.waiting = [];
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => { this.waiting.forEach(this.send); this.waiting = null; };
      inside.document.head.append(script);
      this.terminate = () => frame.remove();
    }
    postMessage(data) { this.waiting ? this.waiting.push(data) : this.send(data); }
    set onmessage(listener) { this.addEventListener("message", listener); }
  };
}
