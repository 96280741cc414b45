//! Which data nodes take the load: those of the connectstring, else of NDB_CONNECTSTRING, else embedded ones,
//! in a process of their own, so that what they use of the processors is not counted as the client's.

use iclaustron::error::Error;

/// What was chosen. Embedded nodes live as long as this.
pub struct Nodes {
    connectstring: Option<String>,
    #[cfg(feature = "embedded")]
    _embedded: Option<embedded::Process>,
}

impl Nodes {
    /// What the library is given to find them; none if it shall look into the environment itself.
    pub fn connectstring(&self) -> Option<&str> {
        self.connectstring.as_deref()
    }
}

/// Starts embedded nodes if no others are named.
#[cfg(feature = "embedded")]
pub fn choose(connectstring: Option<&str>) -> Result<Nodes, Error> {
    let named = std::env::var_os("NDB_CONNECTSTRING").is_some_and(|text| !text.is_empty());
    if connectstring.is_some() || named {
        return Ok(Nodes { connectstring: connectstring.map(str::to_owned), _embedded: None });
    }
    eprintln!(
        "no --connectstring and no NDB_CONNECTSTRING: load on {} embedded data nodes, which share this machine's \
         processors",
        iclaustron::embedded::Options::default().nodes
    );
    let (process, connectstring) = embedded::Process::start()?;
    Ok(Nodes { connectstring: Some(connectstring), _embedded: Some(process) })
}

/// Leaves it to the library: there are no embedded nodes.
#[cfg(not(feature = "embedded"))]
pub fn choose(connectstring: Option<&str>) -> Result<Nodes, Error> {
    Ok(Nodes { connectstring: connectstring.map(str::to_owned) })
}

#[cfg(feature = "embedded")]
pub mod embedded {
    //! The process of the embedded nodes, as seen from both sides.

    use std::io::{self, BufRead, BufReader, Read};
    use std::process::{Child, Command, Stdio};

    use iclaustron::embedded::{EmbeddedCluster, Options};
    use iclaustron::error::{Error, own};

    /// A running process; it ends when its standard input does, so that it never outlives this one.
    pub struct Process(Child);

    impl Process {
        /// Starts it; the connectstring of its nodes.
        pub fn start() -> Result<(Process, String), Error> {
            let failed = |error: io::Error| {
                Error::new(own::INTERNAL, format!("starting embedded data nodes: {error}"))
            };
            let program = std::env::current_exe().map_err(failed)?;
            let mut command = Command::new(program);
            command.arg("nodes").stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = Process(command.spawn().map_err(failed)?);
            let mut line = String::new();
            if let Some(out) = process.0.stdout.take() {
                BufReader::new(out).read_line(&mut line).map_err(failed)?;
            }
            match line.trim() {
                "" => Err(failed(io::ErrorKind::UnexpectedEof.into())),
                connectstring => Ok((process, connectstring.to_owned())),
            }
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            // It has been told to end; that it already has is no news.
            let _ = self.0.wait();
        }
    }

    /// The body of that process.
    pub fn serve() -> Result<(), Error> {
        let cluster = EmbeddedCluster::start(Options::default())?;
        println!("{}", cluster.connectstring());
        let mut nothing = Vec::new();
        let _ = io::stdin().read_to_end(&mut nothing);
        Ok(())
    }
}
