// Starts Debian's Chromium. Its sandbox is only off for root, for whom it does not work.
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  chromiumSandbox: process.getuid() !== 0,
});
