/** As much of fengari, a Lua interpreter, as tests use. */
declare module "fengari" {
  /** An interpreter; opaque. */
  export interface LuaState {
    readonly __lua: unique symbol;
  }
  export function to_luastring(text: string): Uint8Array;
  export const lua: {
    readonly LUA_OK: number;
    readonly LUA_TNIL: number;
    readonly LUA_TBOOLEAN: number;
    readonly LUA_TNUMBER: number;
    readonly LUA_TSTRING: number;
    readonly LUA_TTABLE: number;
    lua_createtable(L: LuaState, items: number, members: number): void;
    lua_getglobal(L: LuaState, name: Uint8Array): number;
    lua_isinteger(L: LuaState, index: number): boolean;
    lua_next(L: LuaState, index: number): number;
    lua_pcall(L: LuaState, args: number, results: number, handler: number): number;
    lua_pop(L: LuaState, count: number): void;
    lua_pushboolean(L: LuaState, value: boolean): void;
    lua_pushcfunction(L: LuaState, fn: (L: LuaState) => number): void;
    lua_pushnil(L: LuaState): void;
    lua_pushnumber(L: LuaState, value: number): void;
    lua_pushstring(L: LuaState, value: Uint8Array): void;
    lua_rawlen(L: LuaState, index: number): number;
    lua_rawseti(L: LuaState, index: number, key: number): void;
    lua_setfield(L: LuaState, index: number, key: Uint8Array): void;
    lua_setglobal(L: LuaState, name: Uint8Array): void;
    lua_toboolean(L: LuaState, index: number): boolean;
    lua_tojsstring(L: LuaState, index: number): string;
    lua_tonumber(L: LuaState, index: number): number;
    lua_type(L: LuaState, index: number): number;
  };
  export const lauxlib: {
    luaL_loadstring(L: LuaState, code: Uint8Array): number;
    luaL_newstate(): LuaState;
    luaL_requiref(L: LuaState, name: Uint8Array, open: (L: LuaState) => number, global: boolean): void;
  };
  export const lualib: {
    readonly luaopen_base: (L: LuaState) => number;
    readonly luaopen_table: (L: LuaState) => number;
  };
}
