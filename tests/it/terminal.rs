//! A pseudo-terminal, for what commands draw on a terminal only.

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

use orchestr_testbed::eventually;
use rustix::{
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::support::TIMEOUT;

/// What was written to a terminal so far.
pub struct Terminal(Arc<Mutex<Vec<u8>>>);

impl Terminal {
    /// A terminal of this size, and the end that a process writes to.
    pub fn new(columns: u16, rows: u16) -> (Self, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        tcsetwinsize(&controller, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let process_end = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&written);
        std::thread::spawn(move || {
            let (mut controller, mut buffer) = (File::from(controller), [0; 4096]);
            // It fails when no process has the other end any more.
            while let Ok(size @ 1..) = controller.read(&mut buffer) {
                all.lock().unwrap().extend_from_slice(&buffer[..size]);
            }
        });
        (Self(written), process_end)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Waits until the text satisfies the condition.
    pub async fn shows(&self, what: &str, is_shown: impl Fn(&str) -> bool) {
        let shown = eventually(what, TIMEOUT, async || {
            let text = self.text();
            if is_shown(&text) { Ok(()) } else { Err(text) }
        });
        shown.await.unwrap();
    }
}
