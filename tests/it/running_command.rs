//! A command under way, whose output is read line by line.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use orchestr_testbed::{eventually, finish};

use crate::support::TIMEOUT;

pub struct RunningCommand {
    child: KilledOnDrop,
    out: Lines,
    err: Lines,
}

/// A process that ends with the test that started it, also if the test fails.
struct KilledOnDrop(Option<Child>);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The lines of a pipe so far.
struct Lines {
    read: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let read = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&read);
        let pipe = BufReader::new(pipe);
        let reader = std::thread::spawn(move || {
            pipe.lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        Self { read, reader }
    }

    async fn contain(&self, part: &str) {
        let what = format!("it prints {part:?}");
        let found = eventually(&what, TIMEOUT, async || {
            let lines = self.read.lock().unwrap();
            if lines.iter().any(|line| line.contains(part)) { Ok(()) } else { Err(lines.join("\n")) }
        });
        found.await.unwrap();
    }

    fn so_far(&self) -> String {
        self.read.lock().unwrap().join("\n")
    }

    fn end(self) -> String {
        self.reader.join().unwrap();
        self.read.lock().unwrap().join("\n")
    }
}

impl RunningCommand {
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Lines::of(child.stdout.take().unwrap()), Lines::of(child.stderr.take().unwrap()));
        Self { child: KilledOnDrop(Some(child)), out, err }
    }

    /// Waits for a line on standard output that contains this text.
    pub async fn prints(&self, part: &str) {
        self.out.contain(part).await;
    }

    /// Waits for a line on standard error that contains this text.
    pub async fn says(&self, part: &str) {
        self.err.contain(part).await;
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for its end, without blocking the test's other tasks. Returns the exit code, standard output and standard error.
    pub async fn ends(self) -> (i32, String, String) {
        self.after(|child, err| {
            let ended = finish(child, TIMEOUT);
            ended.unwrap_or_else(|error| panic!("{error}; it said:\n{}", err.so_far())).status.code().unwrap()
        })
        .await
    }

    /// The same after it was ended as Ctrl-C does.
    pub async fn interrupt(self) -> (i32, String, String) {
        self.after(|child, _| interrupt(child)).await
    }

    async fn after(self, end: impl FnOnce(Child, &Lines) -> i32 + Send + 'static) -> (i32, String, String) {
        let Self { mut child, out, err } = self;
        let child = child.0.take().unwrap();
        let ended = tokio::task::spawn_blocking(move || (end(child, &err), out.end(), err.end()));
        ended.await.unwrap()
    }
}

/// Ends a process as Ctrl-C does, and returns its exit code.
pub fn interrupt(child: Child) -> i32 {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = finish(child, TIMEOUT).unwrap().status;
    status.code().unwrap_or_else(|| panic!("it was ended by signal {:?}", status.signal()))
}
