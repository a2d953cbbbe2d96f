import { type LuaState, lauxlib, lua, lualib, to_luastring } from "fengari";

import { type Json, isJsonObject, isNumber } from "../../src/base/model/index.ts";

/**
 * Runs a script as Argo CD does: with the global `obj`, the libraries base and table, and `os` with nothing but the
 * date. There is no string library, which Argo CD opens only on request. Returns what the script returns.
 */
export function runLua(code: string, obj: Json): Json {
  const L = lauxlib.luaL_newstate();
  lauxlib.luaL_requiref(L, to_luastring("_G"), lualib.luaopen_base, true);
  lauxlib.luaL_requiref(L, to_luastring("table"), lualib.luaopen_table, true);
  lua.lua_pushcfunction(L, openSafeOs);
  lua.lua_setglobal(L, to_luastring("require"));
  push(L, obj);
  lua.lua_setglobal(L, to_luastring("obj"));
  const isLoaded = lauxlib.luaL_loadstring(L, to_luastring(code)) === lua.LUA_OK;
  if (!isLoaded || lua.lua_pcall(L, 0, 1, 0) !== lua.LUA_OK) throw new Error(lua.lua_tojsstring(L, -1));
  return pull(L);
}

/** `require("os")`, with a clock that stands still. */
function openSafeOs(L: LuaState): number {
  if (lua.lua_tojsstring(L, 1) !== "os") throw new Error("only os may be required");
  lua.lua_createtable(L, 0, 1);
  lua.lua_pushcfunction(L, (inner) => {
    push(inner, "0001-01-01T00:00:00Z");
    return 1;
  });
  lua.lua_setfield(L, -2, to_luastring("date"));
  return 1;
}

function push(L: LuaState, value: Json | undefined): void {
  if (value === null || value === undefined) lua.lua_pushnil(L);
  else if (typeof value === "boolean") lua.lua_pushboolean(L, value);
  else if (isNumber(value)) lua.lua_pushnumber(L, Number(value));
  else if (typeof value === "string") lua.lua_pushstring(L, to_luastring(value));
  else pushTable(L, value);
}

function pushTable(L: LuaState, value: Json[] | { [key: string]: Json | undefined }): void {
  lua.lua_createtable(L, 0, 0);
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      push(L, item);
      lua.lua_rawseti(L, -2, index + 1);
    }
  } else if (isJsonObject(value)) {
    for (const [key, member] of Object.entries(value)) {
      push(L, member);
      lua.lua_setfield(L, -2, to_luastring(key));
    }
  }
}

/** The value on top of the stack, taken off it. */
function pull(L: LuaState): Json {
  const type = lua.lua_type(L, -1);
  let value: Json = null;
  if (type === lua.LUA_TBOOLEAN) value = lua.lua_toboolean(L, -1);
  else if (type === lua.LUA_TNUMBER) value = lua.lua_tonumber(L, -1);
  else if (type === lua.LUA_TSTRING) value = lua.lua_tojsstring(L, -1);
  else if (type === lua.LUA_TTABLE) value = pullTable(L);
  lua.lua_pop(L, 1);
  return value;
}

function pullTable(L: LuaState): Json {
  const entries: [string, Json][] = [];
  const length = lua.lua_rawlen(L, -1);
  lua.lua_pushnil(L);
  while (lua.lua_next(L, -2) !== 0) {
    const value = pull(L);
    const isNumber = lua.lua_type(L, -1) === lua.LUA_TNUMBER;
    entries.push([isNumber ? String(lua.lua_tonumber(L, -1)) : lua.lua_tojsstring(L, -1), value]);
  }
  return length > 0 ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}
