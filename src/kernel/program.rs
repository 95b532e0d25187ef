// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Owned handles of loaded programs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libbpf_sys::bpf_prog_info;

use super::map::{Map, MapShape};
use super::probe::{lacking, Capability};
use super::sys::object::{self, ObjectType, PinError};
use super::sys::{check, name_from, owned, SysError};

/// An owned handle of a program, with what the kernel says about it.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    id: u32,
    name: String,
    tag: [u8; 8],
    verified_instructions: u32,
    device: Option<u32>,
    map_ids: Vec<u32>,
}

impl Program {
    /// Takes over the descriptor of a program.
    pub(crate) fn from_fd(fd: OwnedFd) -> Result<Self, SysError> {
        let mut info = bpf_prog_info::default();
        // SAFETY: callers pass descriptors of programs; all pointers in the zeroed structure are
        // null.
        unsafe { object::info(fd.as_fd(), &mut info, "program")? };
        let map_ids = map_ids(fd.as_fd(), info.nr_map_ids)?;
        Ok(Self {
            fd,
            id: info.id,
            name: name_from(&info.name),
            tag: info.tag,
            verified_instructions: info.verified_insns,
            device: (info.ifindex != 0).then_some(info.ifindex),
            map_ids,
        })
    }

    /// Opens the program pinned at `path`.
    pub fn open(path: &Path) -> Result<Self, PinError> {
        let fd = object::open_as(path, ObjectType::Program)?;
        Ok(Self::from_fd(fd)?)
    }

    /// Another handle of the same program.
    pub fn try_clone(&self) -> Result<Self, SysError> {
        let fd = self.fd.try_clone();
        let fd =
            fd.map_err(|e| SysError::from_io("duplicate the descriptor of", &self.name, &e))?;
        Ok(Self {
            fd,
            name: self.name.clone(),
            map_ids: self.map_ids.clone(),
            ..*self
        })
    }

    /// Pins the program; an existing name is refused (EEXIST).
    pub fn pin(&self, path: &Path) -> Result<(), SysError> {
        object::pin(self.as_fd(), path)
    }

    /// The kernel's number of the program.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Name as the kernel lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's hash over the instructions.
    pub fn tag(&self) -> [u8; 8] {
        self.tag
    }

    /// That as 16 hexadecimal digits.
    pub(crate) fn tag_text(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.tag))
    }

    /// Instructions that the verifier walked through to accept the program.
    pub fn verified_instructions(&self) -> u32 {
        self.verified_instructions
    }

    /// Index of the interface whose network card it was loaded for; none: it runs on CPUs.
    pub fn device(&self) -> Option<u32> {
        self.device
    }

    /// The kernel's numbers of the maps it uses.
    pub fn map_ids(&self) -> &[u32] {
        &self.map_ids
    }

    /// Whether it works on most of an instance's pinned maps, given by their numbers: one of them may
    /// be another instance's. Where all of them are lost, nothing speaks against it.
    pub(crate) fn works_on(&self, maps: &[u32]) -> bool {
        let used = maps.iter().filter(|id| self.map_ids.contains(id));
        maps.is_empty() || used.count() * 2 > maps.len()
    }

    /// The map of this shape that it uses, wherever that is pinned; none if it uses none such. Takes
    /// CAP_SYS_ADMIN.
    pub(crate) fn map(&self, shape: &MapShape) -> Result<Option<Map>, SysError> {
        for id in &self.map_ids {
            // SAFETY: the descriptor is new.
            let fd = unsafe { owned(libbpf_sys::bpf_map_get_fd_by_id(*id), "open map", id) };
            let map = Map::from_fd(fd.map_err(|e| lacking(e, &[Capability::SysAdmin]))?)?;
            if map.shape().check(shape, id).is_ok() {
                return Ok(Some(map));
            }
        }
        Ok(None)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn map_ids(program: BorrowedFd<'_>, count: u32) -> Result<Vec<u32>, SysError> {
    let mut ids = vec![0_u32; count as usize];
    let mut info = bpf_prog_info {
        nr_map_ids: count,
        map_ids: ids.as_mut_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: the only pointer leads to room for `count` ids, as the structure says.
    unsafe { object::info(program, &mut info, "program")? };
    ids.truncate(info.nr_map_ids as usize);
    Ok(ids)
}

/// The name of somebody's program, where this process may open programs by number
/// (CAP_SYS_ADMIN).
pub(super) fn name_by_id(id: u32) -> Option<String> {
    Some(by_id(id)?.name)
}

/// Somebody's program, where this process may open programs by number (CAP_SYS_ADMIN).
pub(crate) fn by_id(id: u32) -> Option<Program> {
    find(id).ok()?
}

/// Somebody's program; none if it is gone.
///
/// # Errors
/// The process may not open programs by number, which takes CAP_SYS_ADMIN.
pub(crate) fn find(id: u32) -> Result<Option<Program>, SysError> {
    // SAFETY: the descriptor is new.
    match unsafe { owned(libbpf_sys::bpf_prog_get_fd_by_id(id), "open program", id) } {
        Ok(fd) => Program::from_fd(fd).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(lacking(error, &[Capability::SysAdmin])),
    }
}

/// Every program of this name that uses any of these maps, wherever it is pinned or attached.
///
/// # Errors
/// The process may not open programs by number, which takes CAP_SYS_ADMIN.
pub(crate) fn all_using(name: &str, maps: &[u32]) -> Result<Vec<Program>, SysError> {
    let mut programs = Vec::new();
    let mut id = 0;
    loop {
        // SAFETY: the place for the result outlives the call.
        let result = unsafe { libbpf_sys::bpf_prog_get_next_id(id, &mut id) };
        match check(result, "list programs behind", id) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok(programs),
            Err(error) => return Err(lacking(error, &[Capability::SysAdmin])),
        }
        // One may be gone since it was listed.
        let found = find(id)?.filter(|program| program.name == name);
        programs.extend(found.filter(|p| p.map_ids.iter().any(|map| maps.contains(map))));
    }
}

/// Loads the smallest XDP program there is: it passes everything.
pub(super) fn load_pass(name: &std::ffi::CStr) -> Result<OwnedFd, SysError> {
    use libbpf_sys::{bpf_insn, BPF_ALU64, BPF_EXIT, BPF_JMP, BPF_K, BPF_MOV};
    let mut mov = bpf_insn {
        code: (BPF_ALU64 | BPF_MOV | BPF_K) as u8,
        imm: libbpf_sys::XDP_PASS as i32,
        ..Default::default()
    };
    mov.set_dst_reg(0);
    let exit = bpf_insn {
        code: (BPF_JMP | BPF_EXIT) as u8,
        ..Default::default()
    };
    let instructions = [mov, exit];
    // SAFETY: names and instructions outlive the call, absent options are allowed; the
    // descriptor is new.
    unsafe {
        let result = libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_XDP,
            name.as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        );
        owned(result, "load program", name.to_string_lossy())
    }
}
