//! Which data nodes take the load: those of the connectstring, else of NDB_CONNECTSTRING, else embedded ones.

use iclaustron::error::Error;

/// What was chosen. Embedded nodes live as long as this.
pub struct Nodes {
    connectstring: Option<String>,
    #[cfg(feature = "embedded")]
    _embedded: Option<iclaustron::embedded::EmbeddedCluster>,
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
    let options = iclaustron::embedded::Options::default();
    eprintln!(
        "no --connectstring and no NDB_CONNECTSTRING: load on {} embedded data nodes, which share this machine's \
         processors",
        options.nodes
    );
    let embedded = iclaustron::embedded::EmbeddedCluster::start(options)?;
    Ok(Nodes { connectstring: Some(embedded.connectstring()), _embedded: Some(embedded) })
}

/// Leaves it to the library: there are no embedded nodes.
#[cfg(not(feature = "embedded"))]
pub fn choose(connectstring: Option<&str>) -> Result<Nodes, Error> {
    Ok(Nodes { connectstring: connectstring.map(str::to_owned) })
}
