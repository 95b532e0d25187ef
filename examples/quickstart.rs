// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Embedding in one page: load, publish one service, attach, print counters. As root:
//! `quickstart INTERFACE VIP BACKEND-INTERFACE BACKEND-MAC` and to end it `quickstart --detach`.

use std::error::Error;

use guideway::quiclb::{Loader, Options, Spec, StateRoot, Writer};
use guideway::service::{BackendDraft, ServiceDraft, SpecDraft};

const INSTANCE: &str = "6f1c7f34-5f0a-4d1e-9d55-6a3a1f0f7a11";

fn main() -> Result<(), Box<dyn Error>> {
    let root = StateRoot::default();
    root.check()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [interface, vip, target, mac] = match *arguments {
        ["--detach"] => {
            let mut balancer = Writer::open(&root.quiclb(INSTANCE.parse()?))?;
            balancer.detach()?;
            println!("removed {:?}", balancer.purge()?);
            return Ok(());
        }
        [interface, vip, target, mac] => [interface, vip, target, mac],
        _ => return Err("usage: INTERFACE VIP BACKEND-INTERFACE BACKEND-MAC, or --detach".into()),
    };
    let spec = Spec::new(&SpecDraft {
        services: vec![ServiceDraft {
            backends: vec![BackendDraft::new(1, target, mac)],
            ..ServiceDraft::new("https", vip, 443)
        }],
        ..SpecDraft::new(INSTANCE, interface)
    })?;
    let mut balancer = Loader::new(&root.quiclb(spec.instance_id()), spec.limits()).load()?;
    let plan = balancer.plan(&spec, Options::default())?;
    println!("generation {}", balancer.publish(&plan)?.generation);
    let attached = balancer.attach(spec.interface(), spec.mode().into())?;
    println!("{attached:?}\n{:#?}", balancer.stats()?);
    Ok(())
}
